module lamina:tensor.impl;
import :context;
import :core;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

storage::storage(std::size_t bytes) : block_(new block) {
  block_->bytes = bytes;
  block_->data = memory::allocate(bytes);
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
  if (!b->borrowed) memory::release(b->data, b->bytes);
  delete b;
}

any_tensor::any_tensor(const tensor_type& type) : storage_(type.bytes()), type_(type), data_(static_cast<std::byte*>(storage_.data())) {
  if (type.bytes()) std::memset(data_, 0, type.bytes());
}

any_tensor any_tensor::copy() const {
  any_tensor t(storage(bytes()), type_);
  if (bytes()) std::memcpy(t.data_, data_, bytes());
  return t;
}

void any_tensor::check_type(dtype wanted) const {
  if (wanted == type_.element) return;
  text t;
  t << "a tensor of " << type_.element << " is read as " << wanted;
  detail::raise(error_kind::type, t);
}

namespace detail {

void extents_misfit(const shape& pattern, const shape& got) {
  text t;
  t << "tensor: shape " << got << " does not fit the extents " << pattern;
  raise(error_kind::shape, t);
}

void check_extents(const shape& pattern, const shape& got) {
  if (!fits(pattern, got)) extents_misfit(pattern, got);
  for (int i = 0; i < got.rank; ++i)
    if (got.at(i) < 0) {
      text t;
      t << "tensor: extent " << i << " is negative in " << got;
      raise(error_kind::shape, t);
    }
}

void index_out_of_range(const shape& s, view<const std::int64_t> index) {
  text t;
  t << "index (";
  for (std::size_t i = 0; i < index.size(); ++i) t << (i ? ", " : "") << index[i];
  t << ") is outside the shape " << s;
  raise(error_kind::value, t);
}

void write_while_shared(const shape& s) {
  text t;
  t << "tensor " << s << ": its memory is shared with another tensor or is held by an expression, so it cannot be written; "
    << "call detach() first, or keep a formula instead of an expression";
  raise(error_kind::state, t);
}

namespace {

std::string number(double v, int digits) {
  if (v != v) return "nan";
  if (v > 1.7e308) return "inf";
  if (v < -1.7e308) return "-inf";
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*g", digits, v);
  std::string s = buffer;
  if (s.find_first_of(".en") == s.npos) s += '.';
  return s;
}

std::string element(const std::byte* data, dtype type, std::int64_t i) {
  return with_type(type, [&]<class T>() -> std::string {
    T v;
    std::memcpy(&v, data + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    if constexpr (std::same_as<T, bool>) return v ? "True" : "False";
    else if constexpr (std::integral<T>) return std::to_string(v);
    else if constexpr (std::same_as<T, double>) return number(v, 8);
    else return number(static_cast<double>(static_cast<float>(v)), std::same_as<T, float> ? 8 : 4);
  });
}

// NumPy's layout: aligned columns; beyond 1000 elements only three at each end of an axis.
struct printer {
  const std::byte* data;
  dtype type;
  const shape& s;
  bool shortened;
  std::size_t width = 0;
  std::string out;

  template <class F>
  void indices(int axis, F f) {
    std::int64_t n = s.at(axis);
    for (std::int64_t i = 0; i < n; ++i) {
      if (shortened && n > 6 && i == 3) {
        f(-1);
        i = n - 3;
      }
      f(i);
    }
  }
  void measure(int axis, std::int64_t at) {
    if (axis == s.rank) {
      width = std::max(width, element(data, type, at).size());
      return;
    }
    indices(axis, [&](std::int64_t i) { if (i >= 0) measure(axis + 1, at * s.at(axis) + i); });
  }
  void print(int axis, std::int64_t at) {
    if (axis == s.rank) {
      auto e = element(data, type, at);
      out.append(width - e.size(), ' ');
      out += e;
      return;
    }
    out += '[';
    bool first = true;
    indices(axis, [&](std::int64_t i) {
      if (!first) {
        out.append(axis + 1 == s.rank ? 0 : static_cast<std::size_t>(s.rank - axis - 1), '\n');
        out.append(axis + 1 == s.rank ? 1 : static_cast<std::size_t>(axis + 1), ' ');
      }
      first = false;
      if (i < 0) out += "...";
      else print(axis + 1, at * s.at(axis) + i);
    });
    out += ']';
  }
};

}  // namespace

std::string print(const void* data, dtype type, const shape& s) {
  printer p{static_cast<const std::byte*>(data), type, s, s.size() > 1000, 0, {}};
  p.measure(0, 0);
  p.print(0, 0);
  return std::move(p.out);
}

}  // namespace detail

}  // namespace lamina
