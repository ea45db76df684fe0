//! Detects network cards that several hosts share: another router on the LAN side.

use std::collections::HashMap;

/// Number of IPv4 addresses from which on a card is assumed to be a router's; a single machine has
/// one or two.
pub(crate) const OF_A_ROUTER: usize = 4;
/// Maximum number of cards remembered.
const CARDS: usize = 256;

/// IPv4 addresses seen from each card.
#[derive(Debug, Default)]
pub(crate) struct Routers {
    last: Option<([u8; 6], [u8; 4])>,
    /// The first addresses of each card.
    cards: HashMap<[u8; 6], Vec<[u8; 4]>>,
    /// The last card that reached [`OF_A_ROUTER`] addresses.
    pub(crate) found: Option<[u8; 6]>,
}

impl Routers {
    /// Records a packet from this card with this source address.
    pub(crate) fn saw(&mut self, card: [u8; 6], address: [u8; 4]) {
        if self.last.replace((card, address)) == Some((card, address)) {
            return;
        }
        if self.cards.len() >= CARDS && !self.cards.contains_key(&card) {
            return;
        }
        let addresses = self.cards.entry(card).or_default();
        if addresses.len() < OF_A_ROUTER && !addresses.contains(&address) {
            addresses.push(address);
            if addresses.len() == OF_A_ROUTER {
                self.found = Some(card);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_with_four_addresses_is_found_once() {
        let mut routers = Routers::default();
        for round in 0..3 {
            for last in 0..9 {
                routers.saw([2; 6], [10, 0, 0, last]);
                routers.saw([4; 6], [10, 0, 1, last % 3]);
                let is_found = round == 0 && last == 3;
                assert_eq!(routers.found.take(), is_found.then_some([2; 6]));
            }
        }
    }
}
