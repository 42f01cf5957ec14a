//! The LZ4 block format, read only: what compilers of CUDA 11 and 12 pack fat binaries with.

/// Unpacks one block into exactly `size` bytes; `None` if it is corrupt.
pub(crate) fn unpack(mut input: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut out: Vec<u8> = Vec::with_capacity(size);
    loop {
        let token = take(&mut input)?;
        let literals = length(token >> 4, &mut input)?;
        out.extend_from_slice(input.get(..literals)?);
        input = input.get(literals..)?;
        if out.len() > size {
            return None;
        }
        // The last sequence ends after its literals.
        if input.is_empty() || out.len() == size {
            return (out.len() == size).then_some(out);
        }
        let distance = usize::from(u16::from_le_bytes([take(&mut input)?, take(&mut input)?]));
        let run = length(token & 0xf, &mut input)?.checked_add(4)?;
        let start = out.len().checked_sub(distance).filter(|_| distance > 0)?;
        if out.len().checked_add(run)? > size {
            return None;
        }
        // Source and destination may overlap: that is how runs are written.
        for at in start..start + run {
            out.push(*out.get(at)?);
        }
    }
}

fn take(input: &mut &[u8]) -> Option<u8> {
    let (first, rest) = input.split_first()?;
    *input = rest;
    Some(*first)
}

fn length(nibble: u8, input: &mut &[u8]) -> Option<usize> {
    let mut total = usize::from(nibble);
    if nibble == 15 {
        loop {
            let byte = take(input)?;
            total = total.checked_add(usize::from(byte))?;
            if byte != 255 {
                break;
            }
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_only() {
        assert_eq!(unpack(b"\x50hello", 5).unwrap(), b"hello");
    }

    #[test]
    fn a_match_may_overlap_itself() {
        // "ab", then 8 bytes from 2 back, then the literal "c".
        assert_eq!(
            unpack(b"\x24ab\x02\x00\x10c", 11).unwrap(),
            b"ababababab"
                .to_vec()
                .into_iter()
                .chain(*b"c")
                .collect::<Vec<u8>>()
        );
    }

    #[test]
    fn corrupt_blocks_are_refused() {
        assert_eq!(unpack(b"\x50hell", 5), None);
        assert_eq!(unpack(b"\x24ab\x05\x00\x10c", 11), None);
        assert_eq!(unpack(b"\x24ab\x00\x00\x10c", 11), None);
        assert_eq!(unpack(b"\x50hello", 4), None);
    }
}
