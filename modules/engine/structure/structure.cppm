// Programs from files: the registry of operations by name, and the reader of what `program::to_json` writes.
export module lamina:structure;
import :core;
import :program;
import lamina.std;

namespace lamina {

/// The operations of the library, in the order of their names.
export view<const operation* const> operations();
/// The operation of a name, of the library or among `own`; null where there is none.
export const operation* find_operation(std::string_view name, view<const operation* const> own = {});

/// Reads a program that `program::to_json` wrote: the same nodes, constants, names and id. `own` are operations that the
/// library does not know, as in `{&record<cube_op>}`; `file` is what messages begin with.
/// Errors: file_error naming file, node and operation, what was expected and what stands there; unsupported_error for a
/// version, an operation, an operation's version or an attribute that this library does not know, with the nearest names.
/// Nothing is allocated beyond a multiple of the text's length.
export std::shared_ptr<const program> read_program(std::string_view json, view<const operation* const> own = {},
                                                   std::string_view file = "program");

}  // namespace lamina
