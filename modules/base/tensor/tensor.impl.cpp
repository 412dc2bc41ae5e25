module lamina:tensor.impl;
import :context;
import :core;
import :dtype;
import :shape;
import :tensor;
import :tensor.growable;
import lamina.std;

namespace lamina {

// Owned memory is one allocation: the block, then its elements. Borrowed memory has a separate block.
storage::storage(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() - header)
    detail::raise(error_kind::memory, "out of memory: the size of a tensor overflows");
  void* memory = memory::allocate(header + bytes);
  block_ = new (memory) block;
  block_->bytes = bytes;
  block_->data = static_cast<std::byte*>(memory) + header;
}

storage storage::borrowed(const void* data, std::size_t bytes, std::shared_ptr<void> keeper) {
  storage s = borrowed(const_cast<void*>(data), bytes, std::move(keeper));
  s.block_->constant = true;
  return s;
}
storage storage::borrowed(void* data, std::size_t bytes, std::shared_ptr<void> keeper) {
  storage s;
  s.block_ = new block;
  s.block_->data = data;
  s.block_->bytes = bytes;
  s.block_->borrowed = true;
  s.block_->keeper = std::move(keeper);
  return s;
}

void storage::destroy(block* b) noexcept {
  if (b->borrowed) {
    delete b;
    return;
  }
  std::size_t bytes = header + b->bytes;
  b->~block();
  memory::release(b, bytes);
}

any_tensor::any_tensor(const tensor_type& type)
    : storage_(type.bytes()), type_(type), data_(static_cast<std::byte*>(storage_.data())) {
  if (type.bytes()) std::memset(data_, 0, type.bytes());
}

namespace {
/// Concatenated strings, and a view of each.
struct held_strings {
  std::string characters;
  std::vector<std::string_view> strings;
};
template <class S> any_tensor tensor_of_strings(const shape& s, view<const S> strings) {
  const auto made = std::make_shared<held_strings>();
  std::size_t length = 0;
  for (const S& one : strings) length += one.size();
  made->characters.reserve(length);
  made->strings.reserve(strings.size());
  for (const S& one : strings) {
    made->strings.emplace_back(made->characters.data() + made->characters.size(), one.size());
    made->characters += one;
  }
  const void* first = made->strings.data();
  return any_tensor(storage::borrowed(first, strings.size() * sizeof(std::string_view), made), {dtype::string, s});
}
}  // namespace

any_tensor any_tensor::of_strings(const lamina::shape& s, view<const std::string> strings) {
  detail::check_extents(s, s);
  if (s.size() != static_cast<std::int64_t>(strings.size())) {
    text t;
    t << "any_tensor::of_strings: " << strings.size() << " strings are given for the shape " << s << ", which has "
      << s.size() << " elements";
    detail::raise(error_kind::shape, t);
  }
  return tensor_of_strings(s, strings);
}

any_tensor any_tensor::copy() const {
  const std::byte* from = held();
  if (element() == dtype::string) return tensor_of_strings(shape(), elements<std::string_view>());
  any_tensor t(storage(bytes()), type_);
  if (bytes()) std::memcpy(t.data_, from, bytes());
  return t;
}

void tensor_type::too_large(const shape& s) {
  text t;
  detail::raise(error_kind::shape, t << "tensor: " << s << " has more elements than memory can hold");
}

void any_tensor::check_type(dtype expected) const {
  if (expected == type_.element) return;
  text t;
  t << "a tensor of " << type_.element << " is read as " << expected;
  detail::raise(error_kind::type, t);
}

namespace detail {

void extents_mismatch(const shape& pattern, const shape& got) {
  text t;
  t << "tensor: shape " << got << " does not fit the extents " << pattern;
  raise(error_kind::shape, t);
}

void check_borrowed(std::size_t elements, const shape& s) {
  text t;
  std::int64_t expected = 1;
  bool fits = true;  // whether the number fits 64 bits
  for (int i = 0; i < s.rank; ++i) {
    if (!s[i].is_number()) {
      t << "borrow: " << s << " has an extent that is not a number";
      raise(error_kind::shape, t);
    }
    fits = !__builtin_mul_overflow(expected, s.at(i), &expected) && fits;
  }
  if (!fits || expected > static_cast<std::int64_t>(elements)) {
    t << "borrow: a span of " << elements << " elements cannot hold " << s;
    raise(error_kind::shape, t);
  }
}
shape extents_of(shape pattern, view<const std::int64_t> given) {
  const bool all = given.size() == static_cast<std::size_t>(pattern.rank);
  std::size_t at = 0;
  for (int i = 0; i < pattern.rank; ++i) {
    if (!all && pattern[i].is_number()) continue;
    const std::int64_t n = given[at++];
    if (n < 0) {
      text t;
      raise(error_kind::shape, t << "tensor: extent " << i << " is " << n << "; expected 0 or more");
    }
    pattern[i] = dim(n);
  }
  return pattern;
}
void check_extents(const shape& pattern, const shape& got) {
  if (!fits(pattern, got)) extents_mismatch(pattern, got);
  for (int i = 0; i < got.rank; ++i) {
    if (!got[i].is_number()) {
      text t;
      raise(error_kind::shape, t << "tensor: extent " << i << " of " << got << " is not a number");
    }
  }
  if (!got.countable()) {
    text t;
    t << "tensor: " << got << " has more elements than memory can hold";
    raise(error_kind::shape, t);
  }
}
void check_memory(const storage& memory, const tensor_type& type, std::size_t first) {
  const std::size_t expected = type.bytes();
  if (expected == 0) return;
  if (first > memory.bytes() || expected > memory.bytes() - first) {
    text t;
    t << "tensor: memory of " << memory.bytes() << " bytes cannot hold " << type;
    if (first) t << " from byte " << first << " on";
    raise(error_kind::shape, t);
  }
  if (!memory.data()) raise(error_kind::value, "tensor: the memory is a null pointer");
  if (const std::size_t size = size_of(type.element);
      (reinterpret_cast<std::uintptr_t>(memory.data()) + first) % size) {
    text t;
    raise(error_kind::value, t << "tensor: the memory of " << type << " is not aligned to " << size << " bytes");
  }
}
void check_not_moved_from(const shape& s) {
  if (s.size() == 0) return;
  text t;
  raise(error_kind::state,
        t << "tensor " << s << " has no elements: it was moved from, or never had memory; assign to it first");
}

void index_out_of_range(const shape& s, view<const std::int64_t> index) {
  text t;
  t << "index (";
  for (std::size_t i = 0; i < index.size(); ++i) t << (i ? ", " : "") << index[i];
  t << ") is outside the shape " << s;
  raise(error_kind::value, t);
}

void item_mismatch(const shape& expected, const shape& given) {
  text t;
  t << "growable: its items are " << expected << "; got " << given;
  raise(error_kind::shape, t);
}
void no_such_item(std::int64_t i, std::int64_t count) {
  text t;
  t << "growable: item " << i << " does not exist; the size is " << count;
  raise(error_kind::value, t);
}
void no_items() {
  raise(error_kind::value, "growable: an empty range has no item to take the shape from; give the extents of an item");
}

void write_refused(const shape& s, const storage& memory) {
  text t;
  t << "tensor " << s << ": its memory is ";
  if (memory.is_constant()) t << "const, so it cannot be written; call detach() first";
  else
    t << "shared with another tensor, an expression or the result of a layer, so it cannot be written; "
      << "call detach() first, which gives it its own memory";
  raise(error_kind::state, t);
}

}  // namespace detail

}  // namespace lamina
