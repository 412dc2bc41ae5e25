// Names and initial values of parameters: name maps, by which two layers share one parameter, buffers of named weights,
// and run-time settings of initial values.
export module lamina:parameter.naming;
import :core;
import :initializer;
import :parameter;
import :tensor;
import lamina.std;

namespace lamina {

// ---- names ----------------------------------------------------------------------------------------------------------

/// Renames whole names, or prefixes that end at `.` or `/`. The longest matching prefix is applied, once: `decoder` ->
/// `encoder` turns `decoder.weight` into `encoder.weight` and leaves `decoder2.weight` alone.
export class name_map {
 public:
  /// Errors: value_error if the prefix is empty or already mapped.
  name_map& add(std::string_view beginning, std::string_view to);
  std::string operator()(std::string_view name) const;
  bool empty() const { return entries_.empty(); }
  /// Checks that each prefix under `root` (all if it is empty) matches one of `names`. Errors: value_error naming the
  /// first that does not, the available names, and the nearest.
  void check(std::string_view root, view<const std::string> names) const;

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

/// Whether a name matches a pattern, in which `*` matches any characters and `?` one; `stars` receives the match of
/// each `*`.
bool matches(std::string_view pattern, std::string_view name, std::vector<std::string_view>* stars = nullptr);

/// Renaming by pattern: `{"encoder.*", "backbone.*"}` turns `encoder.norm.weight` into `backbone.norm.weight`. Each `*`
/// on the right is replaced by the match of the corresponding one on the left.
export struct name_pattern {
  std::string from, to;
};
/// Applies the first matching pattern and sets its `used[i]`; returns the name unchanged if none matches.
std::string renamed(std::string_view name, view<const name_pattern> patterns, view<char> used);
/// Checks that no right side has more `*` than its left side. Errors: value_error that begins with `caller`.
void check_patterns(std::string_view caller, view<const name_pattern> patterns);
/// Names that match a pattern, in their order. Errors: like `refuse_pattern`, for a pattern that matches none.
std::vector<std::string> names_that_fit(std::string_view caller, view<const std::string_view> patterns,
                                        std::string_view of_what, view<const std::string> names);
/// Reports a pattern that matches no name. Errors: value_error that begins with `caller`, with the nearest name.
[[noreturn]] void refuse_pattern(std::string_view caller, std::string_view pattern, std::string_view of_what,
                                 view<const std::string> names);

// ---- named weights --------------------------------------------------------------------------------------------------

/// Parameters by name, for loading, saving and sharing: layers initialized with one buffer share the parameters of
/// equal names, and their gradients are summed under that name.
export class load_buffer {
 public:
  load_buffer() = default;
  /// Reads a safetensors file. Errors: file_error.
  static load_buffer read(const std::string& path);
  /// Writes a safetensors file. Errors: file_error.
  void write(const std::string& path) const;

  /// Adds a copy of a tensor. Errors: value_error if the name exists.
  void set(std::string name, const any_tensor& v);
  /// Adds a parameter to be shared. Errors: value_error if the name exists.
  void set(std::shared_ptr<parameter> p);
  /// The parameter with a name, or null.
  std::shared_ptr<parameter> find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  std::size_t size() const { return all_.size(); }
  void clear() { all_.clear(); }
  /// Parameter i, in insertion order.
  const parameter& operator[](std::size_t i) const { return *all_[i]; }

 private:
  std::vector<std::shared_ptr<parameter>> all_;
};

// ---- run-time settings ----------------------------------------------------------------------------------------------

/// Seed of initial values, and overrides of policies and layers by full name: other initializers, given values, and
/// name mappings.
export class initializers {
 public:
  explicit initializers(std::int64_t seed = 0) : seed_(seed) {}
  std::int64_t seed() const { return seed_; }
  /// Sets the initializer of a parameter. Errors: value_error if already set.
  initializers& fill(std::string name, const initializer& how);
  /// Sets the initial values of a parameter; copies them. Errors: value_error if already set.
  initializers& set(std::string name, const any_tensor& v);
  /// Maps names with one prefix to names with another; see `name_map`.
  initializers& tie(std::string_view beginning, std::string_view to) {
    names_.add(beginning, to);
    return *this;
  }
  const name_map& names() const { return names_; }
  /// Checks that all settings for parameters under `layer.` refer to `names`, the full names of the layer's parameters.
  /// Errors: value_error naming the missing name, the available ones, and the nearest.
  void check(std::string_view layer, view<const std::string> names) const;

  /// The parameter with a full name, which is mapped first: from the buffer if it is there, else with given values,
  /// else filled; it is then added to the buffer. Errors: shape_error, type_error naming the parameter if a value
  /// mismatches.
  std::shared_ptr<parameter> make(std::string_view name, const tensor_type& type, const initializer& how,
                                  state_role role, bool trainable, load_buffer* buffer) const;

 private:
  struct exception {
    std::string name;
    initializer how;
    any_tensor given;
  };
  exception& added(std::string name);
  const exception* find(std::string_view name) const;
  std::int64_t seed_;
  std::vector<exception> exceptions_;
  name_map names_;
};

}  // namespace lamina
