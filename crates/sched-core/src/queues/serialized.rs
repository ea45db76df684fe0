//! `serde` serialization of statistics, with names and units of its own and without zeros.

use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::{Counters, DelayHistogram, DropReason, Nanos};

/// `drops` by the name of the reason, without reasons that did not occur.
struct Drops<'a>(&'a Counters);

impl Serialize for Drops<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let some = || {
            let all =
                DropReason::ALL.iter().copied().map(|why| (why.name(), self.0.dropped_for(why)));
            all.filter(|(_, volume)| volume.packets > 0)
        };
        let mut map = serializer.serialize_map(Some(some().count()))?;
        some().try_for_each(|(name, volume)| map.serialize_entry(name, &volume))?;
        map.end()
    }
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Counters", 7)?;
        out.serialize_field("accepted", &self.accepted)?;
        out.serialize_field("rejected", &self.rejected)?;
        out.serialize_field("delivered", &self.delivered)?;
        out.serialize_field("drops", &Drops(self))?;
        out.serialize_field("marked", &self.marked)?;
        out.serialize_field("came_marked", &self.came_marked)?;
        out.serialize_field("peak", &self.peak)?;
        out.end()
    }
}

/// The non-empty buckets: the longest time of each (`None` for the last bucket) and its count.
struct Buckets<'a>(&'a DelayHistogram);

impl Serialize for Buckets<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let end = |end: Nanos| (end < Nanos::MAX).then_some(end.0);
        serializer.collect_seq(self.0.buckets().map(|(last, count)| (end(last), count)))
    }
}

impl Serialize for DelayHistogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let at = |per_mille| self.quantile(per_mille).map(|wait| wait.0);
        let mut out = serializer.serialize_struct("DelayHistogram", 8)?;
        out.serialize_field("count", &self.count())?;
        out.serialize_field("sum_ns", &self.sum())?;
        out.serialize_field("longest_ns", &self.longest())?;
        out.serialize_field("p50_ns", &at(500))?;
        out.serialize_field("p95_ns", &at(950))?;
        out.serialize_field("p99_ns", &at(990))?;
        out.serialize_field("p999_ns", &at(999))?;
        out.serialize_field("buckets", &Buckets(self))?;
        out.end()
    }
}
