// Serialization: the registry of operations by name, and the reader of JSON from `program::to_json`.
export module lamina:structure;
import :core;
import :program;
import lamina.std;

namespace lamina {

/// The library's operations, sorted by name.
export view<const operation* const> operations();
/// The operation with a name, from the library or `own`; null if there is none.
export const operation* find_operation(std::string_view name, view<const operation* const> own = {});

/// Reads a program written by `program::to_json`: the same nodes, constants, names and id. `own` lists operations
/// outside the library, as in `{&record<cube_op>}`; messages begin with `file`.
/// Errors: file_error naming file, node and operation, expected and actual value; unsupported_error for an unknown
/// version, operation, version of an operation or attribute, with the nearest names.
/// Allocates no more than a multiple of the text's length.
export std::shared_ptr<const program> read_program(std::string_view json, view<const operation* const> own = {},
                                                   std::string_view file = "program");

}  // namespace lamina
