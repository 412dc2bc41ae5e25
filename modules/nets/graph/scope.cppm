// Names and devices of operations added to nets: scopes that nest, belong to their thread, and end with their block, also
// where an error ends it.
export module lamina:graph.scope;
import :core;
import :program;
import lamina.std;

namespace lamina::graph {

/// Puts `name/` before the names that are given while it lives. Scopes nest; with `reset` it begins again at the root.
/// Names of operations' results begin with it, too; a value that is passed on keeps its name.
export class name_scope {
 public:
  explicit name_scope(std::string_view name, bool reset = false);
  ~name_scope();
  name_scope(const name_scope&) = delete;
  name_scope& operator=(const name_scope&) = delete;
  /// What this thread puts before names: "encoder/first/", or nothing.
  static const std::string& current();

 private:
  std::string outer_;
};

/// Says for which device operations are added while it lives; the net keeps it with each of them. Empty: none is said.
/// Errors: value_error for any but `cpu`.
export class device_scope {
 public:
  explicit device_scope(std::string_view device, const origin& = {});
  ~device_scope();
  device_scope(const device_scope&) = delete;
  device_scope& operator=(const device_scope&) = delete;
  static const std::string& current();

 private:
  std::string outer_;
};

}  // namespace lamina::graph
