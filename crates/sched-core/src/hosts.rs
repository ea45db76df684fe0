//! Hosts above flows: their shares, their rates and their ceilings.

pub(crate) mod ceilings;
pub(crate) mod committed_rates;
pub(crate) mod host_drr;
pub(crate) mod hosted;
pub(crate) mod load_drr;
pub(crate) mod siblings;
#[cfg(test)]
mod test_line;
pub(crate) mod tin_rings;
pub(crate) mod token_bucket;
