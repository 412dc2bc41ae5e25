// RAII scopes for names and devices of operations added to nets. They are thread-local and nest.
export module lamina:graph.scope;
import :core;
import :program;
import lamina.std;

namespace lamina::graph {

/// Prepends `name/` to the names given while it lives. Scopes nest; `reset` starts again at the root.
/// Automatic names of results get the prefix, too; a value returned unchanged keeps its name.
export class name_scope {
 public:
  explicit name_scope(std::string_view name, bool reset = false);
  ~name_scope();
  name_scope(const name_scope&) = delete;
  name_scope& operator=(const name_scope&) = delete;
  /// The current prefix of this thread, such as "encoder/first/"; may be empty.
  static const std::string& current();

 private:
  std::string outer_;
};

/// Sets the device that a net records for operations added while it lives. Empty: no device.
/// Errors: value_error for any device but `cpu`.
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
