//! Arrays and mipmapped arrays.

use crate::model::{Array, FORMAT, array_bytes, mipmap_bytes, rounded};
use crate::turn::{Result, Turn, pick};
use crate::world::Expect;

impl Turn<'_> {
    pub(super) fn flat_array(&mut self, width: u64, height: u64, format: usize) -> Result {
        let (code, _, _, channels) = FORMAT[format];
        let bytes = array_bytes(width, height, 0, format);
        let line = format!("{{8:{width},8:{height},4:{code},4:{channels}}}");
        self.array("cuArrayCreate_v2", &line, "", bytes, false)
    }

    pub(super) fn volume(
        &mut self,
        [width, height, depth]: [u64; 3],
        layered: bool,
        format: usize,
    ) -> Result {
        let (code, _, _, channels) = FORMAT[format];
        let layered = layered || height == 0;
        let bytes = array_bytes(width, height, depth, format);
        let flags = u32::from(layered && depth > 0);
        let line =
            format!("{{8:{width},8:{height},8:{depth},4:{code},4:{channels},4:{flags},4:0}}");
        self.array("cuArray3DCreate_v2", &line, "", bytes, false)
    }

    pub(super) fn mipmaps(
        &mut self,
        [width, height, depth]: [u64; 3],
        format: usize,
        levels: u32,
    ) -> Result {
        let (code, _, _, channels) = FORMAT[format];
        let depth = if height == 0 { 0 } else { depth };
        let bytes = mipmap_bytes(width, height, depth, format, levels);
        let line = format!("{{8:{width},8:{height},8:{depth},4:{code},4:{channels},4:0,4:0}}");
        self.array(
            "cuMipmappedArrayCreate",
            &line,
            &format!(" {levels}"),
            bytes,
            true,
        )
    }

    pub(super) fn array(
        &mut self,
        symbol: &str,
        descriptor: &str,
        more: &str,
        bytes: u64,
        mipmapped: bool,
    ) -> Result {
        let expect = self.asking(bytes);
        let slot = self.slot();
        let answer = self.call(&format!("{symbol} &{slot} {descriptor}{more}"));
        let model = self.model();
        if let (true, Some(context)) = (answer.success(), model.current()) {
            let device = model.contexts[context].device;
            let bytes = rounded(bytes);
            model.arrays.push(Array {
                slot,
                mipmapped,
                device,
                bytes,
                context,
            });
        }
        self.check(&answer, expect, false)
    }

    pub(super) fn destroy_array(&mut self, which: u8) -> Result {
        let Some(number) = pick(which, self.model().arrays.len()) else {
            return Ok(());
        };
        let Array {
            slot, mipmapped, ..
        } = self.model().arrays.remove(number);
        let symbol = if mipmapped {
            "cuMipmappedArrayDestroy"
        } else {
            "cuArrayDestroy"
        };
        let answer = self.call(&format!("{symbol} ${slot}"));
        self.check(&answer, Expect::Success(None), true)
    }
}
