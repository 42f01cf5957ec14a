//! PTX text, as far as a loader must read it: versions, entries with their parameters and
//! limits, and variables. Instructions are skipped.

mod entry;
mod reader;
#[cfg(test)]
mod tests;
mod variable;

use crate::module::image::{Image, ImageError, Target};
use crate::module::lexer::tokens;
use reader::Reader;

/// The line that makes the simulator carry out the kernels of `kernels.ptx`.
const BUILTINS_MARK: &str = "// gpu-sim builtins";

/// PTX ISA x 10 that a driver of this CUDA version compiles: they rise together, but for the few
/// releases that brought no new ISA.
pub(crate) fn isa_of_driver(driver: i32) -> u32 {
    match driver / 10 {
        ..=899 => 50,
        900..=999 => 60 + minor(driver),
        1000..=1099 => 63 + minor(driver),
        1100..=1199 => 70 + minor(driver),
        1200..=1205 => 80 + minor(driver),
        1206 => 85,
        1207..=1299 => 79 + minor(driver),
        _ => 90 + u32::try_from(driver / 1000 - 13).unwrap_or(0) * 10 + minor(driver),
    }
}

fn minor(driver: i32) -> u32 {
    u32::try_from(driver % 1000 / 10).unwrap_or(0)
}

/// Reads PTX that may end in NULs, as files and fat binaries hold it.
pub(crate) fn parse_bytes(bytes: &[u8], target: Target) -> Result<Image, ImageError> {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let text = bytes
        .get(..end)
        .and_then(|text| std::str::from_utf8(text).ok());
    let text = text.ok_or_else(|| ImageError::Invalid("neither an ELF file nor text".into()))?;
    parse(text, target)
}

/// Reads PTX text.
pub(crate) fn parse(text: &str, target: Target) -> Result<Image, ImageError> {
    if !text.contains(".version") || !text.contains(".target") {
        return Err(ImageError::Invalid(
            "text without .version and .target: not PTX".into(),
        ));
    }
    let tokens = tokens(text).map_err(ImageError::InvalidPtx)?;
    let builtins = text.lines().any(|line| line.trim() == BUILTINS_MARK);
    let mut reader = Reader {
        tokens: &tokens,
        at: 0,
        isa: 0,
        sm: 0,
        builtins,
    };
    let image = reader.module()?;
    let known = isa_of_driver(target.driver);
    if reader.isa > known {
        return Err(ImageError::UnsupportedPtx(format!(
            "PTX ISA {}.{} is newer than this driver's {}.{}",
            reader.isa / 10,
            reader.isa % 10,
            known / 10,
            known % 10
        )));
    }
    if reader.sm > target.sm {
        return Err(ImageError::InvalidPtx(format!(
            "PTX for sm_{} cannot run on this device, sm_{}",
            reader.sm, target.sm
        )));
    }
    Ok(finish(image, target))
}

/// What the compiler would add to what the text says.
fn finish(mut image: Image, target: Target) -> Image {
    for function in &mut image.functions {
        function.binary_version = target.sm;
    }
    image.code_bytes = image.functions.len() * 4096;
    image
}

impl Reader<'_> {
    fn module(&mut self) -> Result<Image, ImageError> {
        let mut image = Image::default();
        while let Some(token) = self.next() {
            match token.text {
                ".version" => self.isa = version(self.word(".version")?),
                ".target" => self.sm = self.target()?,
                ".entry" => {
                    let function = self.entry()?;
                    if let Some(function) = function {
                        image.functions.push(function);
                    }
                }
                ".func" => self.skip_function()?,
                ".global" | ".const" => self.variable(token.text, &mut image)?,
                ".texref" | ".samplerref" | ".surfref" | ".tex" => self.reference(&mut image)?,
                // Whole bodies of debug information and the like.
                "{" => self.skip_braces()?,
                "}" => return Err(self.invalid("a closing brace too many")),
                _ => {}
            }
        }
        if self.isa == 0 || self.sm == 0 {
            return Err(self.invalid("no .version or no .target"));
        }
        Ok(image)
    }

    /// `.target sm_90a, texmode_independent`
    fn target(&mut self) -> Result<u32, ImageError> {
        let text = self.word(".target")?;
        let digits = text.strip_prefix("sm_").unwrap_or_default();
        let digits = digits.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        digits
            .parse()
            .map_err(|_| self.invalid(&format!(".target {text}: not an architecture")))
    }
}

fn version(text: &str) -> u32 {
    let mut parts = text.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    parts.next().unwrap_or(0) * 10 + parts.next().unwrap_or(0)
}
