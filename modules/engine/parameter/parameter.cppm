// Named states that persist across runs: parameters, optimizer slots, running statistics, generators; with versions
// that detect stale packed forms.
export module lamina:parameter;
import :core;
import :dtype;
export import :initializer;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Purpose of a state.
export enum class state_role : std::uint8_t { parameter, statistic, optimizer, generator };

/// A packed form of a parameter, shared by all plans that read it.
struct packed_form {
  std::uint64_t version = 0;  // version of the parameter when packed
  storage memory;
  /// Restores the elements from the packed form; empty if it does not contain them all.
  std::function<void(const storage& packed, std::byte* elements)> unpack{};
};

/// A named state.
export class parameter {
 public:
  parameter(std::string name, any_tensor value, state_role role, bool trainable)
      : name_(std::move(name)), value_(std::move(value)), role_(role), trainable_(trainable) {}
  const std::string& name() const { return name_; }
  /// The elements; without memory while released.
  const any_tensor& value() const { return value_; }
  const lamina::shape& shape() const { return value_.shape(); }
  state_role role() const { return role_; }
  /// Whether training changes it.
  bool trainable() const { return trainable_; }
  void trainable(bool on) { trainable_ = on; }
  /// Incremented by each assignment; packed forms of an older version are stale.
  inline std::uint64_t version() const { return version_; }
  void changed() { ++version_; }
  std::byte* mutable_data() { return value_.mutable_data(); }
  /// Replaces the elements by others of the same type, also if it had none. Errors: shape_error, type_error.
  void assign(const any_tensor& v);
  /// A copy of the elements. Errors: state_error if there are none.
  any_tensor copy() const;
  /// Whether the elements are in this process: training on several processes may shard the optimizer, so that each slot
  /// is in one of them.
  bool has_elements() const { return value_.data() || value_.bytes() == 0 || source(); }
  /// Errors: state_error if they are not.
  void require_elements() const;
  /// Frees the elements, which another process has.
  void drop();

  /// The packed form of a format; `memory` is empty until it is packed.
  packed_form& packed(std::uint64_t format);
  std::size_t packed_forms() const { return packed_.size(); }
  /// Lets `release` free the elements if a packed form contains them, until `keep`.
  void releasable() { releasable_ = true; }
  void keep() { restore(), releasable_ = false; }
  /// Frees the elements if allowed; returns whether it did.
  bool release();
  /// Unpacks the elements if released. Errors: out_of_memory.
  void restore();

 private:
  const packed_form* source() const;
  std::string name_;
  any_tensor value_;
  state_role role_;
  bool trainable_, releasable_ = false;
  std::uint64_t version_ = 1;
  std::map<std::uint64_t, packed_form> packed_;  // by format
};

// A unique number for each set of parameters: a copy gets a new one, a move takes it along.
class store_identity {
 public:
  store_identity() noexcept : number_(next()) {}
  store_identity(const store_identity&) noexcept : store_identity() {}
  store_identity(store_identity&& o) noexcept : number_(std::exchange(o.number_, next())) {}
  store_identity& operator=(store_identity o) noexcept {
    std::swap(number_, o.number_);
    return *this;
  }
  std::uint64_t number() const { return number_; }

 private:
  static std::uint64_t next() noexcept;
  std::uint64_t number_;
};

/// Parameters by name, in the order of their declaration. Copies are deep.
export class parameter_store {
 public:
  parameter_store() = default;
  parameter_store(const parameter_store& o);
  parameter_store(parameter_store&&) = default;
  parameter_store& operator=(const parameter_store& o) { return *this = parameter_store(o); }
  parameter_store& operator=(parameter_store&&) = default;

  /// The parameter with a name, or null.
  parameter* find(std::string_view name);
  const parameter* find(std::string_view name) const;
  parameter& add(std::string name, any_tensor value, state_role role, bool trainable = true);
  /// Creates and initializes a parameter; bits depend on seed and name alone.
  parameter& make(std::string name, const tensor_type& type, const initializer& how, std::int64_t seed, state_role role,
                  bool trainable = true);
  std::size_t size() const { return all_.size(); }
  parameter& operator[](std::size_t i) { return *all_[i]; }
  const parameter& operator[](std::size_t i) const { return *all_[i]; }
  /// Iterates over the parameters in insertion order: `for (auto& p : net.parameters())`.
  template <class Store> struct iterator {
    Store* store = nullptr;
    std::size_t at = 0;
    auto& operator*() const { return (*store)[at]; }
    iterator& operator++() { return ++at, *this; }
    bool operator==(const iterator&) const = default;
  };
  iterator<parameter_store> begin() { return {this, 0}; }
  iterator<parameter_store> end() { return {this, size()}; }
  iterator<const parameter_store> begin() const { return {this, 0}; }
  iterator<const parameter_store> end() const { return {this, size()}; }
  /// Bytes of all values that are in this process.
  std::size_t bytes() const;
  /// Number of packed forms of all parameters.
  std::size_t packed_forms() const;
  std::size_t index(std::string_view name) const;
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  /// Changes when the store is assigned other parameters, which invalidates addresses of the old ones. Unique among all
  /// stores.
  std::uint64_t identity() const { return identity_.number(); }
  /// Changes the identity, so that programs traced with these parameters are traced again.
  void renew() { identity_ = store_identity(); }

 private:
  store_identity identity_;
  std::vector<std::unique_ptr<parameter>> all_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

}  // namespace lamina
