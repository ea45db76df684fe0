//! Recount of the accounting of a node.

use super::open_classes::{Opening, Status};
use super::room::Longest;
use super::{ClassTables, Classes, Classify};
use crate::FlowId;
use crate::flow_scheduler::{FlowScheduler, FlowState};
use crate::scheduler::{Backlog, Imbalance, Scheduler};

impl<O, S, R, M> Classes<O, S, R, M>
where
    O: FlowScheduler,
    S: Scheduler,
    R: Classify,
    M: ClassTables<S>,
{
    /// [`Scheduler::recount`].
    pub(super) fn recount_all(&self) -> Result<(), Imbalance> {
        let classes = self.classes.as_ref();
        let (mut packets, mut bytes, mut open) = (0_u64, 0_u64, false);
        for (at, class) in (0..).zip(classes) {
            class.recount()?;
            let held = class.backlog();
            packets += u64::from(held.packets);
            bytes += u64::from(held.bytes);
            let status = self.status(FlowId(at));
            let idle = status == Status::Idle;
            Imbalance::check("idle and empty", at, idle.into(), (held.packets == 0).into())?;
            open |= status == Status::Open;
        }
        let held = self.ledger.backlog();
        Imbalance::check("packets in the classes", 0, held.packets.into(), packets)?;
        Imbalance::check("bytes in the classes", 0, held.bytes.into(), bytes)?;
        Imbalance::check("limits hold", 0, 0, self.ledger.is_over().into())?;
        let selects = self.scheduler.select().is_some();
        Imbalance::check("an open class and selection", 0, open.into(), selects.into())?;
        let closed = |class| matches!(self.status(class), Status::Closed(_));
        Opening::recount(self.states.as_ref(), &|class| {
            let closed = u32::from(closed(class));
            FlowState { backlog: Backlog { packets: closed, bytes: closed }, head_len: None }
        })?;
        let holds = |class: FlowId| self.class(class).map(Scheduler::backlog).unwrap_or_default();
        Longest::recount(self.ranks.as_ref(), &|class| FlowState {
            backlog: holds(class),
            head_len: None,
        })?;
        self.scheduler.recount(&|class| match self.status(class) {
            Status::Open => {
                FlowState { backlog: holds(class), head_len: Some(self.next_len(class)) }
            }
            _ => FlowState::default(),
        })
    }
}
