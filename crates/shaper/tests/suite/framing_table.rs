//! Length on the wire, compared with a deployed shaper.

use shaper::Overhead;

/// Goal: a setting pasted from an existing gateway charges the same bytes here. Method:
/// `golden/framing.tsv` has the bytes that CAKE in Linux 6.1 charges. Compare every row (link
/// options) × every column (IP length), with frames 14 bytes longer than the IP length, as a device
/// reports them, and, where the header does not count, also with IP lengths. Compare the resolved
/// options as well.
#[test]
fn every_cell_of_the_recorded_table_is_reproduced() {
    let table = include_str!("../golden/framing.tsv");
    let mut lines = table.lines().filter(|line| !line.starts_with('#'));
    let lengths: Vec<u32> = lines
        .next()
        .unwrap()
        .split('\t')
        .skip(5)
        .map(|column| column.strip_prefix("ip").unwrap().parse().unwrap())
        .collect();
    assert_eq!(lengths.len(), 38);

    let mut cells = 0;
    for line in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let [options, overhead, framing, mpu, raw] = fields[..5].try_into().unwrap();
        let link = Overhead::from_keywords(options, Overhead::ETHERNET_HEADER).unwrap();
        assert_eq!(link.overhead(), overhead.parse().unwrap(), "{options}");
        assert_eq!(link.mpu(), if mpu == "-" { 0 } else { mpu.parse().unwrap() }, "{options}");
        let expected = match framing {
            "-" | "noatm" => shaper::Framing::None,
            "atm" => shaper::Framing::Atm,
            "ptm" => shaper::Framing::Ptm,
            other => panic!("framing {other} in {options}"),
        };
        assert_eq!(link.framing(), expected, "{options}");
        assert_eq!(link.header() == 0, raw == "1", "{options}");

        assert_eq!(fields.len(), 5 + lengths.len(), "{options}");
        for (&length, wire) in lengths.iter().zip(&fields[5..]) {
            let wire: u32 = wire.parse().unwrap();
            assert_eq!(link.wire_len(length + 14), wire, "{options} at {length}");
            if raw == "0" {
                let packets = Overhead::from_keywords(options, 0).unwrap();
                assert_eq!(packets.wire_len(length), wire, "{options} at {length}");
            }
            cells += 1;
        }
    }
    assert_eq!(cells, 29 * 38);
}

/// Goal: the page for operators is correct. Method: parse the keywords in each row of its table of
/// links.
#[test]
fn the_page_has_the_bytes_that_are_charged() {
    let page = include_str!("../../../../docs/guide/framing.md");
    let mut rows = 0;
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, words, overhead, mpu, framing, short, long, _] = cells[..] else { continue };
        let number = |cell: &str| cell.replace(',', "").parse::<u32>();
        let (Ok(short), Ok(long)) = (number(short), number(long)) else { continue };
        let Some(words) = words.strip_prefix('`').and_then(|words| words.strip_suffix('`')) else {
            continue;
        };
        let link = Overhead::from_keywords(words, 0).unwrap();
        assert_eq!(link.overhead(), overhead.parse().unwrap(), "{line}");
        assert_eq!(link.mpu(), number(mpu).unwrap_or(0), "{line}");
        let expected = match framing {
            "" => shaper::Framing::None,
            "ATM" => shaper::Framing::Atm,
            "PTM" => shaper::Framing::Ptm,
            "GEM" => shaper::Framing::Gem,
            "XGEM" => shaper::Framing::Xgem,
            other => panic!("framing {other}"),
        };
        assert_eq!(link.framing(), expected, "{line}");
        assert_eq!((link.wire_len(40), link.wire_len(1_500)), (short, long), "{line}");
        rows += 1;
    }
    assert_eq!(rows, 16);
}
