// A list of equally shaped tensors, packed in memory and usable as a tensor of one more rank.
export module lamina:tensor.growable;
import :core;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {
[[noreturn]] void item_mismatch(const shape& expected, const shape& given);
[[noreturn]] void no_such_item(std::int64_t i, std::int64_t count);
[[noreturn]] void no_items();
template <class T, int Rank, class Given, int GivenRank> struct item_check {
  static consteval text message() {
    text t;
    if (!std::same_as<T, Given> || Rank != GivenRank)
      t << "growable: its items are " << dtype_of<T> << " of rank " << Rank << "; got "
        << dtype_of<Given> << " of rank " << GivenRank;
    return t;
  }
};
}  // namespace detail

/// Items of rank `Rank`, usable as one operand of rank `Rank` + 1 whose extent 0 is their number. They are packed, so
/// operations read them in place. Copies share memory; the first to be modified copies it, so expressions keep their
/// operands.
/// Errors: shape_error for an item of another shape; value_error for an index out of range.
export template <Element T, int Rank> class growable {
 public:
  using evaluation_mode = lazy;
  using element_type = T;
  using extents_type = typename tensor_of_rank<T, Rank + 1>::extents_type;
  using item_type = tensor_of_rank<T, Rank>;
  static constexpr lamina::shape pattern = extents_type::pattern;

  /// An empty list of numbers.
  growable() requires(Rank == 0) : growable(lamina::shape{}) {}
  /// An empty list of items with these extents.
  template <std::integral... I> requires(sizeof...(I) == Rank && Rank > 0)
  explicit growable(I... of_an_item) : growable(lamina::shape{dim(of_an_item)...}) {}
  explicit growable(const lamina::shape& of_an_item) {
    detail::check_extents(item_type::pattern, of_an_item);
    shape_.push_back(0);
    for (int i = 0; i < Rank; ++i) shape_.push_back(of_an_item[i]);
  }
  /// Items from a range. Errors: value_error if it is empty, since then their shape is unknown.
  template <class First, class Last> requires(!std::integral<First>) && requires(First i, Last end) {
    ++i;
    { i != end } -> std::convertible_to<bool>;
    *i;
  } growable(First first, Last last) {
    if (!(first != last)) detail::no_items();
    *this = growable(item_shape_of(*first));
    for (; first != last; ++first) push(*first);
  }

  growable(const growable&) = default;
  growable& operator=(const growable&) = default;
  // A moved-from list has no items and keeps their shape.
  growable(growable&& o) noexcept
      : memory_(std::move(o.memory_)), shape_(o.shape_), capacity_(std::exchange(o.capacity_, 0)) {
    o.shape_.dims[0] = 0;
  }
  growable& operator=(growable&& o) noexcept {
    const lamina::shape taken = o.shape_;
    memory_ = std::move(o.memory_);
    capacity_ = std::exchange(o.capacity_, 0);
    o.shape_.dims[0] = 0;
    shape_ = taken;  // last: `o` may be this
    return *this;
  }
  ~growable() = default;

  /// Appends an item. Errors: shape_error naming both shapes.
  template <class U, class Extents> requires accepted<diagnostic<detail::item_check<T, Rank, U, Extents::rank>>()>
  void push(const tensor<U, Extents>& item) {
    if (item.shape() != item_shape()) detail::item_mismatch(item_shape(), item.shape());
    const tensor<T, Extents> kept = item;  // `item` may be one of this list's items
    T* to = reserved(size() + 1) + size() * step();
    if (step()) std::memcpy(static_cast<void*>(to), kept.data().data(), static_cast<std::size_t>(step()) * sizeof(T));
    ++shape_[0].code;
  }
  template <std::convertible_to<T> Number> requires(Rank == 0) void push(const Number& number) {
    *(reserved(size() + 1) + size()) = static_cast<T>(number);
    ++shape_[0].code;
  }
  /// Reserves capacity for this many items in total. Errors: value_error below 0.
  void reserve(std::int64_t items) {
    if (items < 0) {
      text t;
      detail::raise(error_kind::value, t << "reserve: `items` is " << items << "; expected 0 or more");
    }
    if (items > capacity_) move_to(items);
  }
  /// Removes all items and keeps their shape.
  void clear() {
    if (!memory_.unique()) memory_ = {}, capacity_ = 0;
    shape_[0] = 0;
  }
  /// Reverses the order of items.
  void reverse() {
    if (size() < 2 || step() == 0) return;
    T* first = reserved(size());
    for (std::int64_t i = 0; i < size() / 2; ++i)
      std::swap_ranges(first + i * step(), first + (i + 1) * step(), first + (size() - 1 - i) * step());
  }

  std::int64_t size() const { return shape_.at(0); }
  bool empty() const { return size() == 0; }
  std::int64_t capacity() const { return capacity_; }
  const lamina::shape& shape() const { return shape_; }
  lamina::shape item_shape() const {
    lamina::shape s;
    for (int i = 1; i <= Rank; ++i) s.push_back(shape_[i]);
    return s;
  }
  /// An item; shares memory.
  item_type operator[](std::int64_t i) const {
    if (i < 0 || i >= size()) detail::no_such_item(i, size());
    return item_type(memory_, item_shape(), static_cast<std::size_t>(i * step()));
  }
  /// All items as one tensor; shares memory.
  tensor<T, extents_type> packed() const {
    return memory_ ? tensor<T, extents_type>(memory_, shape_) : tensor<T, extents_type>(shape_);
  }

  view<const T> data() const {
    return {static_cast<const T*>(memory_.data()), static_cast<std::size_t>(shape_.size())};
  }
  const storage& memory() const { return memory_; }

 private:
  template <class Item> static lamina::shape item_shape_of(const Item& item) {
    if constexpr (Rank == 0) return {};
    else return item.shape();
  }
  std::int64_t step() const { return shape_.size(1, Rank + 1); }
  // Unshared memory with capacity for `items` items.
  T* reserved(std::int64_t items) {
    if (items > capacity_) move_to(std::max<std::int64_t>(items, std::max<std::int64_t>(4, capacity_ * 2)));
    else if (!memory_.unique()) move_to(capacity_);
    return static_cast<T*>(memory_.data());
  }
  void move_to(std::int64_t items) {
    lamina::shape s = shape_;
    s[0] = dim(items);
    detail::check_extents(pattern, s);
    storage next(static_cast<std::size_t>(s.size()) * sizeof(T));
    if (shape_.size()) std::memcpy(next.data(), memory_.data(), static_cast<std::size_t>(shape_.size()) * sizeof(T));
    memory_ = std::move(next);
    capacity_ = items;
  }

  storage memory_;
  lamina::shape shape_;
  std::int64_t capacity_ = 0;
};

}  // namespace lamina
