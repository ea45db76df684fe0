//! The device tree in which a boot loader describes the machine (Devicetree Specification 0.4 §5).

/// Returns the value of the first property `name` in `tree`, a flattened device tree. `None` if
/// there is none, or if the tree is cut off before it.
pub fn property<'a>(tree: &'a [u8], name: &str) -> Option<&'a [u8]> {
    const BEGIN_NODE: u32 = 1;
    const PROPERTY: u32 = 3;
    const END: u32 = 9;
    let word = |at: usize| Some(u32::from_be_bytes(*tree.get(at..)?.first_chunk()?));
    let names = tree.get(word(12)? as usize..)?;
    let mut at = word(8)? as usize;
    loop {
        let token = word(at)?;
        at += 4;
        match token {
            BEGIN_NODE => at = (at + text(tree.get(at..)?).len() + 1).next_multiple_of(4),
            PROPERTY => {
                let (len, label) = (word(at)? as usize, word(at + 4)? as usize);
                let value = tree.get(at + 8..at + 8 + len)?;
                if text(names.get(label..)?) == name.as_bytes() {
                    return Some(value);
                }
                at = (at + 8 + len).next_multiple_of(4);
            }
            END => return None,
            _ => {}
        }
    }
}

/// Returns the bytes before the first zero.
pub fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}
