//! Kernels: parameters, launch bounds, and the memory that a body declares.

use crate::module::function::{Builtin, Function, Param};
use crate::module::image::ImageError;
use crate::module::ptx::reader::Reader;
use crate::module::ptx::variable::Declared;

const MAX_THREADS: u32 = 1024;

impl Reader<'_> {
    /// `.entry NAME (params) directives { body }`; a declaration ends in `;` and is no kernel.
    pub(super) fn entry(&mut self) -> Result<Option<Function>, ImageError> {
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
}
