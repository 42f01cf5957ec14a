//! PTX text, as far as a loader must read it: versions, entries with their parameters and
//! limits, and variables. Instructions are skipped.

use crate::module::function::{Builtin, Function, Param};
use crate::module::image::{Global, Image, ImageError, Target};
use crate::module::lexer::{Token, tokens};

/// The line that makes the simulator carry out the kernels of `kernels.ptx`.
const BUILTINS_MARK: &str = "// gpu-sim builtins";
const MAX_THREADS: u32 = 1024;
/// More alignment than anything has.
const MAX_ALIGN: usize = 1 << 20;
/// Most variables are small; larger initialisers than this are taken as zero.
const MAX_INIT: usize = 1 << 20;

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

/// A parameter or variable as declared.
struct Declared<'a> {
    name: &'a str,
    size: usize,
    align: usize,
    /// Bytes of one element.
    element: usize,
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    isa: u32,
    sm: u32,
    builtins: bool,
}

impl<'a> Reader<'a> {
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

    fn invalid(&self, what: &str) -> ImageError {
        let line = self
            .tokens
            .get(self.at.saturating_sub(1))
            .map_or(0, |t| t.line);
        ImageError::InvalidPtx(format!("line {line}: {what}"))
    }

    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.get(self.at).copied();
        self.at += usize::from(token.is_some());
        token
    }

    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).map_or("", |t| t.text)
    }

    fn accept(&mut self, text: &str) -> bool {
        let found = self.peek() == text;
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, after: &str) -> Result<&'a str, ImageError> {
        self.next()
            .map(|t| t.text)
            .ok_or_else(|| self.invalid(&format!("nothing after {after}")))
    }

    fn number(&mut self, after: &str) -> Result<usize, ImageError> {
        let text = self.word(after)?;
        number(text).ok_or_else(|| self.invalid(&format!("{after} {text}: not a number")))
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

    /// `.entry NAME (params) directives { body }`; a declaration ends in `;` and is no kernel.
    fn entry(&mut self) -> Result<Option<Function>, ImageError> {
        let name = self.word(".entry")?;
        if !name.starts_with(|c: char| c.is_ascii_alphabetic() || "_$%".contains(c)) {
            return Err(self.invalid(&format!(".entry {name}: not a name")));
        }
        let params = if self.accept("(") {
            self.params()?
        } else {
            Vec::new()
        };
        let mut function = Function {
            name: name.to_owned(),
            builtin: if self.builtins {
                Builtin::recognise(name, &params)
            } else {
                None
            },
            params,
            max_threads: MAX_THREADS,
            required_block: None,
            static_shared: 0,
            local: 0,
            registers: 32,
            ptx_version: self.sm,
            binary_version: self.sm,
        };
        loop {
            match self.word(name)? {
                ";" => return Ok(None),
                "{" => break,
                ".maxntid" => function.max_threads = self.block()?.iter().product(),
                ".reqntid" => {
                    let block = self.block()?;
                    function.max_threads = block.iter().product();
                    function.required_block = Some(block);
                }
                ".maxnreg" => {
                    let most = self.number(".maxnreg")?;
                    function.registers = u32::try_from(most).unwrap_or(255).min(255);
                }
                "}" | "(" | ")" => return Err(self.invalid(&format!("entry {name} has no body"))),
                _ => {}
            }
        }
        function.max_threads = function.max_threads.min(MAX_THREADS);
        self.body(&mut function)?;
        Ok(Some(function))
    }

    fn block(&mut self) -> Result<[u32; 3], ImageError> {
        let mut block = [1_u32; 3];
        for side in &mut block {
            let text = self.number("a block size")?;
            *side = u32::try_from(text).map_err(|_| self.invalid("a block size too large"))?;
            if !self.accept(",") {
                break;
            }
        }
        Ok(block)
    }

    /// Parameters up to the closing parenthesis, laid out in order at their natural alignment.
    fn params(&mut self) -> Result<Vec<Param>, ImageError> {
        let mut params: Vec<Param> = Vec::new();
        let mut end = 0_usize;
        while !self.accept(")") {
            if self.accept(",") {
                continue;
            }
            let Declared { size, align, .. } = self.declaration(".param")?;
            let offset = end
                .checked_next_multiple_of(align)
                .ok_or_else(|| self.invalid("parameters too large"))?;
            params.push(Param { offset, size });
            end = offset.saturating_add(size);
        }
        Ok(params)
    }

    /// `[.param] [.align N] .type [.ptr ...] NAME [dims]` up to what ends it.
    fn declaration(&mut self, what: &str) -> Result<Declared<'a>, ImageError> {
        let (mut element, mut align, mut vector) = (None, None, 1);
        loop {
            let text = self.word(what)?;
            match text {
                ".align" => {
                    let asked = self.number(".align")?;
                    if !(1..=MAX_ALIGN).contains(&asked) {
                        return Err(self.invalid(&format!(".align {asked}: out of range")));
                    }
                    align = Some(asked);
                }
                ".v2" => vector = 2,
                ".v4" => vector = 4,
                // The alignment that follows is of what the pointer points to.
                ".ptr" => {
                    while self.peek().starts_with('.') {
                        if self.word(".ptr")? == ".align" {
                            self.number(".align")?;
                        }
                    }
                }
                ".attribute" => self.skip_parentheses()?,
                _ if text.starts_with('.') => element = type_size(text).or(element),
                "(" | ")" | "{" | "}" | ";" | "," | "=" => {
                    return Err(self.invalid(&format!("{what} without a name")));
                }
                name => {
                    let Some(element) = element else {
                        return Err(self.invalid(&format!("{what} {name} without a type")));
                    };
                    let mut size = element * vector;
                    let align = align.unwrap_or(size);
                    while self.accept("[") {
                        if self.accept("]") {
                            size = 0;
                            continue;
                        }
                        let count = self.number("[")?;
                        size = size.saturating_mul(count);
                        if !self.accept("]") {
                            return Err(self.invalid(&format!("{name}: ']' missing")));
                        }
                    }
                    return Ok(Declared {
                        name,
                        size,
                        align: align.max(1),
                        element,
                    });
                }
            }
        }
    }

    /// A kernel's body up to its closing brace: only the memory that it declares is of interest.
    fn body(&mut self, function: &mut Function) -> Result<(), ImageError> {
        let mut depth = 1_u32;
        while depth > 0 {
            match self.word(&function.name.clone())? {
                "{" => depth += 1,
                "}" => depth -= 1,
                space @ (".shared" | ".local") => {
                    let Declared { size, align, .. } = self.declaration(space)?;
                    let total = if space == ".shared" {
                        &mut function.static_shared
                    } else {
                        &mut function.local
                    };
                    let at = usize::try_from(*total).unwrap_or(0).next_multiple_of(align);
                    *total = u32::try_from(at.saturating_add(size)).unwrap_or(u32::MAX);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn skip_function(&mut self) -> Result<(), ImageError> {
        loop {
            match self.word(".func")? {
                ";" => return Ok(()),
                "{" => return self.skip_braces(),
                _ => {}
            }
        }
    }

    fn skip_braces(&mut self) -> Result<(), ImageError> {
        let mut depth = 1_u32;
        while depth > 0 {
            match self.word("{")? {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    fn skip_parentheses(&mut self) -> Result<(), ImageError> {
        while self.word("(")? != ")" {}
        Ok(())
    }

    fn variable(&mut self, space: &str, image: &mut Image) -> Result<(), ImageError> {
        let external = self.before(".extern");
        let managed = self.peek() == ".attribute" && self.mentions(".managed");
        if matches!(self.peek(), ".texref" | ".samplerref" | ".surfref") {
            self.at += 1;
            return self.reference(image);
        }
        let Declared {
            name,
            mut size,
            align,
            element,
        } = self.declaration(space)?;
        let mut init = Vec::new();
        if self.accept("=") {
            init = self.initialiser(element)?;
            if size == 0 {
                size = init.len();
            }
        }
        init.truncate(size.min(MAX_INIT));
        let constant = space == ".const";
        if !external {
            image.globals.push(Global {
                name: name.to_owned(),
                size,
                align,
                init,
                managed,
                constant,
            });
        }
        // `.global .u32 a, b;` is not PTX that any compiler emits.
        if self.accept(";") {
            Ok(())
        } else {
            Err(self.invalid(&format!("{space} {name}: ';' missing")))
        }
    }

    /// Whether the directive just before the one being read is `text`.
    fn before(&self, text: &str) -> bool {
        self.at
            .checked_sub(2)
            .and_then(|i| self.tokens.get(i))
            .is_some_and(|t| t.text == text)
    }

    /// Whether the token just before the one being looked at is `text`.
    fn before_is(&self, text: &str) -> bool {
        self.at
            .checked_sub(1)
            .and_then(|i| self.tokens.get(i))
            .is_some_and(|t| t.text == text)
    }

    fn mentions(&self, text: &str) -> bool {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        rest.iter()
            .take_while(|t| t.text != ")")
            .any(|t| t.text == text)
    }

    /// `= value` or `= {values}`. Names of other variables (addresses) count as zero.
    fn initialiser(&mut self, element: usize) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        let mut depth = 0_u32;
        loop {
            match self.peek() {
                ";" if depth == 0 => return Ok(bytes),
                "" => return Err(self.invalid("an initialiser that does not end")),
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                "," | "-" | "(" | ")" | "generic" => {}
                text => {
                    let negative = self.before_is("-");
                    let value = literal(text).unwrap_or(0);
                    let value = if negative {
                        value.wrapping_neg()
                    } else {
                        value
                    };
                    bytes.extend(value.to_le_bytes().into_iter().take(element));
                }
            }
            self.at += 1;
        }
    }

    fn reference(&mut self, image: &mut Image) -> Result<(), ImageError> {
        let name = self.word("a reference")?;
        image.references.push(name.to_owned());
        while self.word(name)? != ";" {}
        Ok(())
    }
}

/// A number as it is laid out in memory: an integer, or a float spelled `0f` or `0d` and its bits.
fn literal(text: &str) -> Option<u64> {
    let bits = ["0f", "0F", "0d", "0D"]
        .iter()
        .find_map(|mark| text.strip_prefix(mark));
    match bits.filter(|bits| matches!(bits.len(), 8 | 16)) {
        Some(bits) => u64::from_str_radix(bits, 16).ok(),
        None => number(text).and_then(|n| u64::try_from(n).ok()),
    }
}

fn version(text: &str) -> u32 {
    let mut parts = text.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    parts.next().unwrap_or(0) * 10 + parts.next().unwrap_or(0)
}

fn number(text: &str) -> Option<usize> {
    let text = text.trim_end_matches('U');
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => usize::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn type_size(text: &str) -> Option<usize> {
    Some(match text {
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        ".b128" => 16,
        ".texref" | ".samplerref" | ".surfref" => 8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target {
        sm: 90,
        driver: 13000,
    };

    fn with(body: &str) -> Result<Image, ImageError> {
        parse(
            &format!(".version 7.0\n.target sm_75\n.address_size 64\n{body}"),
            TARGET,
        )
    }

    #[test]
    fn parameters_lie_at_their_alignment() {
        let image = with(
            ".visible .entry k(.param .u8 a, .param .align 8 .b8 s[24], .param .u64 .ptr .global \
             .align 4 p, .param .u32 n)\n.maxntid 256, 1, 1\n.minnctapersm 2 { ret; }",
        )
        .unwrap();
        let [kernel] = &image.functions[..] else {
            panic!("one kernel: {image:?}")
        };
        let layout: Vec<(usize, usize)> =
            kernel.params.iter().map(|p| (p.offset, p.size)).collect();
        assert_eq!(layout, [(0, 1), (8, 24), (32, 8), (40, 4)]);
        assert_eq!((kernel.name.as_str(), kernel.max_threads), ("k", 256));
    }

    #[test]
    fn memory_declared_in_a_body_is_summed() {
        let image = with(
            ".entry k() { .shared .align 4 .b8 a[1000]; { .shared .align 16 .b8 b[8]; } \
             .local .align 8 .b8 d[32]; ret; }",
        )
        .unwrap();
        assert_eq!(
            (image.functions[0].static_shared, image.functions[0].local),
            (1016, 32)
        );
    }

    #[test]
    fn variables_and_their_values() {
        let image = with(
            ".visible .global .align 8 .u64 g[10];\n.const .u32 c = 7;\n\
             .global .f32 f = 0f3F800000;\n.global .b8 t[3] = {1, 2, 0x3};\n.global .s32 n = -1;\n\
             .extern .global .u32 away;\n.global .u64 to = generic(g);\n.global .b8 open[] = {1, 2};\n.visible .global .attribute(.managed) .align 4 .u32 m;",
        )
        .unwrap();
        let found: Vec<(&str, usize, &[u8])> = image
            .globals
            .iter()
            .map(|g| (g.name.as_str(), g.size, g.init.as_slice()))
            .collect();
        assert_eq!(
            found,
            [
                ("g", 80, &[][..]),
                ("c", 4, &[7, 0, 0, 0]),
                ("f", 4, &[0, 0, 0x80, 0x3f]),
                ("t", 3, &[1, 2, 3]),
                ("n", 4, &[0xff; 4]),
                ("to", 8, &[0; 8]),
                ("open", 2, &[1, 2]),
                ("m", 4, &[]),
            ]
        );
        assert!(image.globals[7].managed && image.globals[1].constant);
    }

    #[test]
    fn functions_and_declarations_are_no_kernels() {
        let image = with(
            ".extern .func (.param .b32 r) vprintf(.param .b64 a);\n\
             .func helper() { .reg .b32 %r; { bra X; } X: ret; }\n.entry later();\n.entry k() { ret; }",
        )
        .unwrap();
        assert_eq!(image.functions.len(), 1);
    }

    #[test]
    fn builtins_need_the_mark() {
        let kernel = ".entry sim_work(.param .u64 n) { ret; }";
        assert_eq!(with(kernel).unwrap().functions[0].builtin, None);
        let marked = with(&format!("// gpu-sim builtins\n{kernel}")).unwrap();
        assert_eq!(marked.functions[0].builtin, Some(Builtin::Work));
    }

    #[test]
    fn the_shipped_kernels_are_all_understood() {
        let image = parse(include_str!("../../../kernels.ptx"), TARGET).unwrap();
        assert_eq!(image.functions.len(), 7);
        assert!(
            image.functions.iter().all(|f| f.builtin.is_some()),
            "{image:?}"
        );
    }

    #[test]
    fn what_is_no_ptx_is_refused() {
        let refused = |text| parse(text, TARGET).unwrap_err();
        assert!(matches!(refused("hello"), ImageError::Invalid(_)));
        assert!(matches!(
            with(".entry k() { ret;"),
            Err(ImageError::InvalidPtx(_))
        ));
        assert!(matches!(
            with(".entry k( { ret; }"),
            Err(ImageError::InvalidPtx(_))
        ));
        assert!(matches!(with("}"), Err(ImageError::InvalidPtx(_))));
        assert!(matches!(
            refused(".version 9.1\n.target sm_90\n"),
            ImageError::UnsupportedPtx(_)
        ));
        assert!(matches!(
            refused(".version 8.0\n.target sm_100\n"),
            ImageError::InvalidPtx(_)
        ));
    }

    #[test]
    fn drivers_know_their_isa() {
        for (driver, isa) in [
            (10020, 65),
            (11000, 70),
            (11040, 74),
            (11080, 78),
            (12000, 80),
            (12040, 84),
            (12050, 85),
            (12060, 85),
            (12080, 87),
            (12090, 88),
            (13000, 90),
            (13050, 95),
        ] {
            assert_eq!(isa_of_driver(driver), isa, "{driver}");
        }
    }
}
