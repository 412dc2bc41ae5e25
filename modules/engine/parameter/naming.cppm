// How parameters get their names and first values: maps of names, by which two layers share one parameter, buffers of
// named weights, and what is said of initial values at run time.
export module lamina:parameter.naming;
import :core;
import :initializer;
import :parameter;
import :tensor;
import lamina.std;

namespace lamina {

// ---- names ----------------------------------------------------------------------------------------------------------

/// Names that stand for others: a whole name, or a beginning of it that ends at `.` or `/`. The longest one that fits
/// counts, once: `decoder` -> `encoder` turns `decoder.weight` into `encoder.weight` and leaves `decoder2.weight`
/// alone.
export class name_map {
 public:
  /// Errors: value_error if the beginning is empty or mapped already.
  name_map& add(std::string_view beginning, std::string_view to);
  std::string operator()(std::string_view name) const;
  bool empty() const { return entries_.empty(); }
  /// That each beginning under `root` (all where it is empty) is one of these names. Errors: value_error naming the first
  /// that is not, those that are there, and the nearest.
  void check(std::string_view root, view<const std::string> names) const;

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

/// Whether a name is of a pattern, in which `*` stands for any letters and `?` for one; `stars` are what each `*` stood for.
bool matches(std::string_view pattern, std::string_view name, std::vector<std::string_view>* stars = nullptr);

/// Other names by pattern: `{"encoder.*", "backbone.*"}` makes `backbone.norm.weight` of `encoder.norm.weight`. Each `*` on the right
/// is what the one at its place on the left stood for.
export struct name_pattern {
  std::string from, to;
};
/// The name that the first pattern makes which fits; the name itself where none does. `used[i]` is set for that pattern.
std::string renamed(std::string_view name, view<const name_pattern> patterns, view<char> used);
/// That a right side has no more `*` than the left. Errors: value_error that begins with `who`.
void check_patterns(std::string_view who, view<const name_pattern> patterns);
/// The names that are of a pattern, in their order. Errors: as `refuse_pattern`, for a pattern that fits none.
std::vector<std::string> names_that_fit(std::string_view who, view<const std::string_view> patterns,
                                        std::string_view of_what, view<const std::string> names);
/// A pattern fits none of the names. Errors: value_error that begins with `who`, with the nearest name.
[[noreturn]] void refuse_pattern(std::string_view who, std::string_view pattern, std::string_view of_what,
                                 view<const std::string> names);

// ---- named weights --------------------------------------------------------------------------------------------------

/// Parameters by name, to load from, to save to, and to share: layers that are initialized with one buffer share the
/// parameters of equal names, and gradients of both are summed under that name.
export class load_buffer {
 public:
  load_buffer() = default;
  /// From a safetensors file. Errors: file_error.
  static load_buffer read(const std::string& path);
  /// To a safetensors file. Errors: file_error.
  void write(const std::string& path) const;

  /// Adds a copy of a tensor. Errors: value_error if the name is there already.
  void set(std::string name, const any_tensor& v);
  /// Adds a parameter to be shared. Errors: value_error if the name is there already.
  void set(std::shared_ptr<parameter> p);
  /// The parameter of a name, or null.
  std::shared_ptr<parameter> find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  std::size_t size() const { return all_.size(); }
  void clear() { all_.clear(); }
  /// Parameter i, in the order in which they were added.
  const parameter& operator[](std::size_t i) const { return *all_[i]; }

 private:
  std::vector<std::shared_ptr<parameter>> all_;
};

// ---- what is said at run time ---------------------------------------------------------------------------------------

/// The seed of initial values, and exceptions from what policies and layers say, by full name: other initializers,
/// given values, and names that stand for others.
export class initializers {
 public:
  explicit initializers(std::int64_t seed = 0) : seed_(seed) {}
  std::int64_t seed() const { return seed_; }
  /// How the parameter of a name begins. Errors: value_error if that is said already.
  initializers& fill(std::string name, const initializer& how);
  /// With which values the parameter of a name begins; they are copied. Errors: value_error if that is said already.
  initializers& set(std::string name, const any_tensor& v);
  /// Lets names that begin with one beginning stand for those of another; see `name_map`.
  initializers& tie(std::string_view beginning, std::string_view to) {
    names_.add(beginning, to);
    return *this;
  }
  const name_map& names() const { return names_; }
  /// That what is said of parameters under `layer.` is said of some of these, the full names of the layer's parameters.
  /// Errors: value_error naming what is not there, what is, and the nearest.
  void check(std::string_view layer, view<const std::string> names) const;

  /// The parameter of a full name: from the buffer if it is there, else with given values, else filled; then it is in
  /// the buffer too. `name` is mapped first. Errors: shape_error, type_error naming the parameter where a value does
  /// not fit.
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
