use std::vec::Vec;

use super::*;

/// Reference model: a linear search of all members.
fn asked(members: &[HostMember], wanted: (Kind, u128)) -> Option<u16> {
    let holds = |member: &&HostMember| {
        member.kind == wanted.0 && (member.first..=member.last).contains(&wanted.1)
    };
    members.iter().find(holds).map(|member| member.host)
}

/// Goal: a search finds the same member as a linear search. Method: all sets of up to three
/// disjoint ranges of eight addresses, in all orders; search for each address as IPv4, IPv6 and
/// MAC.
#[test]
fn a_search_finds_what_a_look_at_every_member_finds() {
    let mut ranges = Vec::new();
    for first in 0..8_u128 {
        for last in first..8 {
            ranges.push((first, last));
        }
    }
    let member = |kind, (first, last): (u128, u128), host| HostMember { kind, host, first, last };
    let (mut accepted, mut refused) = (0, 0);
    let kinds = [Kind::V4, Kind::V6, Kind::Mac];
    for (i, &one) in ranges.iter().enumerate() {
        for (j, &two) in ranges.iter().enumerate() {
            for &three in &ranges[..(i + j) % ranges.len()] {
                let kind = kinds[(i + j) % 3];
                let members =
                    [member(Kind::V6, one, 1), member(Kind::V6, two, 2), member(kind, three, 3)];
                let overlap = |a: &HostMember, b: &HostMember| {
                    a.kind == b.kind && a.first <= b.last && b.first <= a.last
                };
                let [a, b, c] = &members;
                let is_disjoint = !overlap(a, b) && !overlap(a, c) && !overlap(b, c);
                let map = HostMap::new(HostBy::Address, members);
                assert_eq!(map.is_ok(), is_disjoint, "{members:?}");
                let Ok(map) = map else {
                    refused += 1;
                    continue;
                };
                accepted += 1;
                for kind in kinds {
                    for at in 0..9 {
                        assert_eq!(map.find((kind, at)), asked(&members, (kind, at)));
                    }
                }
            }
        }
    }
    assert!(accepted > 500 && refused > 500, "{accepted} {refused}");
}

/// Goal: the bound on searches holds for the largest table, and every member is found. Method: the
/// largest table, in descending order; its first, last and some other members, and addresses
/// between them.
#[test]
fn the_largest_table_is_searched_within_the_bound() {
    let address = |number: u32| number.to_be_bytes();
    let count = MAX_MEMBERS as u32;
    let member = |number: u32| HostMember::v4(address(3 * number), (number % 60_000) as u16);
    let mut members: Vec<HostMember> = (0..count).rev().map(member).collect();
    let map = HostMap::new(HostBy::Address, members.clone()).unwrap();
    assert!(map.members().windows(2).all(|pair| pair[0].first < pair[1].first));
    for number in (0..count).step_by(997).chain([count - 1]) {
        let found = map.listed(HostKey::V4(address(3 * number)));
        assert_eq!(found, Some((number % 60_000) as u16), "{number}");
        assert_eq!(map.listed(HostKey::V4(address(3 * number + 1))), None);
    }
    members.push(HostMember::v6([0; 16], 0));
    let error = HostMap::new(HostBy::Address, members).unwrap_err();
    assert_eq!(error, HostError::Members { given: MAX_MEMBERS + 1 });
}

/// Goal: each identity separates the hosts that it should, and no others.
#[test]
fn hosts_on_no_list_are_told_apart_as_asked() {
    let v6 = |last: u8| {
        let mut address = [0x20; 16];
        address[15] = last;
        HostKey::V6(address)
    };
    let end = |last: u8, vlan: u16| LinkEnd { mac: Some([2, 0, 0, 0, 0, last]), vlans: [vlan, 9] };
    let of = |by, host, end| HostMap::unlisted(by).host(host, end);
    let subnets = HostBy::Prefix(PrefixLengths::SUBNETS);
    assert_eq!(of(HostBy::Address, v6(1), end(1, 1)), v6(1));
    assert_eq!(of(subnets, v6(1), end(1, 1)), of(subnets, v6(2), end(2, 2)));
    assert_ne!(of(subnets, v6(1), end(1, 1)), of(subnets, HostKey::V6([0x21; 16]), end(1, 1)));
    let v4 = HostKey::V4([10, 1, 2, 3]);
    assert_eq!(of(subnets, v4, end(1, 1)), v4);
    let byte = HostBy::Prefix(PrefixLengths::new(8, 0).unwrap());
    assert_eq!(of(byte, v4, end(1, 1)), HostKey::V4([10, 0, 0, 0]));
    assert_eq!(of(byte, v6(1), end(1, 1)), HostKey::V6([0; 16]));
    assert_eq!(of(byte, HostKey::NotIp, end(1, 1)), HostKey::NotIp);
    assert_eq!(of(HostBy::Mac, v6(1), end(7, 1)), HostKey::Mac([2, 0, 0, 0, 0, 7]));
    assert_eq!(of(HostBy::Mac, HostKey::NotIp, end(7, 1)), HostKey::Mac([2, 0, 0, 0, 0, 7]));
    assert_eq!(of(HostBy::Vlan, v6(1), end(7, 5)), HostKey::Vlan([5, 9]));
    for by in [HostBy::Mac, HostBy::Vlan] {
        assert_eq!(of(by, v4, LinkEnd::NONE), v4);
        assert!(HostMap::unlisted(by).reads_link());
    }
    assert!(!HostMap::unlisted(subnets).reads_link());
    let mac = HostMap::new(HostBy::Address, [HostMember::mac([1; 6], 0)]).unwrap();
    assert!(mac.reads_link());
}

/// Goal: a member of a list belongs to its host, whatever the identity of the others; a MAC takes
/// precedence.
#[test]
fn lists_come_before_the_identity_of_others() {
    let members = [
        HostMember::v4_prefix([192, 168, 2, 0], 24, 5).unwrap(),
        HostMember::mac([2, 0, 0, 0, 0, 7], 6),
        HostMember::v4_range([10, 0, 0, 3], [10, 0, 0, 9], 7).unwrap(),
        HostMember::v6_range([1; 16], [2; 16], 7).unwrap(),
        HostMember::v6_prefix([0xfd; 16], 128, 5).unwrap(),
    ];
    let map = HostMap::new(HostBy::Vlan, members).unwrap();
    let end = |last: u8| LinkEnd { mac: Some([2, 0, 0, 0, 0, last]), vlans: [0, 0] };
    for (address, last, host) in [
        (HostKey::V4([192, 168, 2, 255]), 1, HostKey::Named(5)),
        (HostKey::V4([192, 168, 2, 255]), 7, HostKey::Named(6)),
        (HostKey::V4([192, 168, 3, 0]), 1, HostKey::Vlan([0, 0])),
        (HostKey::V4([10, 0, 0, 3]), 1, HostKey::Named(7)),
        (HostKey::V4([10, 0, 0, 10]), 1, HostKey::Vlan([0, 0])),
        (HostKey::V6([1; 16]), 1, HostKey::Named(7)),
        (HostKey::V6([0xfd; 16]), 1, HostKey::Named(5)),
        (HostKey::NotIp, 7, HostKey::Named(6)),
    ] {
        assert_eq!(map.host(address, end(last)), host, "{address:?} {last}");
    }
    assert_eq!((map.by(), map.members().len()), (HostBy::Vlan, 5));
    let moved = map.members().iter().map(|member| member.of_host(9)).collect::<Vec<_>>();
    let moved = HostMap::new(HostBy::Vlan, moved).unwrap();
    assert_eq!(moved.listed(HostKey::V6([1; 16])), Some(9));
}

#[test]
fn what_is_wrong_is_named_with_what_is_accepted() {
    let bits = HostMember::v4_prefix([10, 0, 0, 1], 24, 0).unwrap_err();
    assert_eq!(bits, HostError::BitsBehind { len: 24 });
    let long = HostMember::v4_prefix([10, 0, 0, 1], 33, 0).unwrap_err();
    assert_eq!(std::format!("{long}"), "prefix length 33 (expected 0 to 32)");
    let long = HostMember::v6_prefix([0; 16], 129, 0).unwrap_err();
    assert_eq!(long, HostError::PrefixLength { given: 129, max: 128 });
    assert_eq!(PrefixLengths::new(32, 129), Err(long));
    assert_eq!(HostMember::v4_range([2; 4], [1; 4], 0), Err(HostError::Backwards));
    assert_eq!(HostMember::v6_range([2; 16], [1; 16], 0), Err(HostError::Backwards));
    let (one, other) = (HostMember::v4_prefix([0; 4], 0, 1).unwrap(), HostMember::v4([9; 4], 1));
    let overlap = HostMap::new(HostBy::Address, [other, one]).unwrap_err();
    assert_eq!(overlap, HostError::Overlap { one, other });
}

/// Goal: hosts are addresses while all frames come from one MAC, and MACs from the first frame of a
/// second one on, until one MAC has been alone for [`ALONE_AFTER`] frames. Multicast addresses do
/// not count, and lists take precedence.
#[test]
fn hosts_are_cards_if_there_are_several() {
    let end = |card: u8| LinkEnd { mac: Some([card, 0, 0, 0, 0, 1]), vlans: [0, 0] };
    let (one, other) = (HostKey::V4([10, 0, 0, 1]), HostKey::V4([10, 0, 0, 2]));
    let mut map = HostMap::new(HostBy::Auto, [HostMember::v4([10, 0, 0, 9], 3)]).unwrap();
    assert!(map.reads_link());
    for _ in 0..3 {
        assert!(!map.learn(end(2)) && !map.learn(end(0x33)) && !map.learn(LinkEnd::NONE));
        assert_eq!((map.host(one, end(2)), map.host(other, end(2))), (one, other));
    }
    assert!(map.learn(end(4)), "hosts are others from here on");
    assert!(!map.learn(end(2)) && !map.learn(end(4)) && !map.learn(end(2)));
    let card = HostKey::Mac([2, 0, 0, 0, 0, 1]);
    assert_eq!((map.host(one, end(2)), map.host(other, end(2))), (card, card));
    assert_eq!(map.host(HostKey::V4([10, 0, 0, 9]), end(2)), HostKey::Named(3));
    assert_eq!(map.host(one, LinkEnd::NONE), one);
    assert_eq!(map.host(HostKey::NotIp, end(2)), HostKey::NotIp);
    let next = HostMap::unlisted(HostBy::Auto).with_cards_of(&map);
    assert_eq!(next.host(one, end(2)), card);
    for _ in 1..ALONE_AFTER {
        assert!(!map.learn(end(2)));
    }
    assert!(map.has_several_cards());
    assert!(!map.learn(end(2)) && !map.has_several_cards());
    assert_eq!(map.host(one, end(2)), one);
    assert!(map.learn(end(4)), "and again");
    let mut by_address = HostMap::unlisted(HostBy::Address);
    assert!(!by_address.learn(end(2)) && !by_address.learn(end(4)));
    assert_eq!(by_address.host(one, end(2)), one);
}
