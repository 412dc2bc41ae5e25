// Key of an evaluation's plan: the structure of its expressions as numbers, and their leaves.
export module lamina:expression.key;
import :core;
import :expression;
import :expression.data;
import :program;
import :shape;
import lamina.std;

namespace lamina::detail {

class dynamic_node;

/// Numbers addresses in the order of their first use.
class address_numbers {
 public:
  /// The number of an address; the address is new if that equals the previous `count()`.
  inline std::size_t number(const void* address) {
    if (!table_) {
      for (std::size_t i = 0; i < count_; ++i)
        if (few_[i] == address) return i;
      if (count_ < std::size(few_)) return few_[count_] = address, count_++;
    }
    return number_among_many(address);
  }
  bool knows(const void* address) const;
  std::size_t count() const { return count_; }

 private:
  struct place {
    const void* address = nullptr;
    std::size_t after = 0;
  };  // `after`: number + 1; 0: free
  std::size_t number_among_many(const void* address);
  place& place_of(const void* address) const;
  const void* few_[8];
  std::size_t count_ = 0, places_ = 0;
  std::unique_ptr<place[]> table_;  // hash table of all addresses if there are many, at most half full
};

/// Size of an expression's key, if its type determines it.
template <class E> struct key_size {
  static constexpr bool known = !has_run_time_structure<E> && !is_data_leaf<E>;
  static constexpr std::size_t leaves = requires(const E& e) { e.position(); } ? 3 : 1;  // one_hot has three
  static constexpr std::size_t words = [] {
    std::size_t n = 0;
    for (int d = 0; d < E::pattern.rank; ++d) n += !E::pattern[d].is_number();
    return n;
  }();
};
template <class Op, class A, class... X> struct key_size<expression<Op, A, X...>> {
  static constexpr bool known = A::fixed && (key_size<X>::known && ...);
  static constexpr std::size_t leaves = (key_size<X>::leaves + ...), words = (key_size<X>::words + ...);
};

/// Collects everything an evaluation depends on, for expressions with a key of this size. Evaluations of one expression
/// type have equal words if they differ only in the addresses of their leaves, which are in the order in which `lower`
/// visits them.
template <std::size_t Leaves, std::size_t Words> class typed_key {
 public:
  inline typed_key() {}
  typed_key(const typed_key&) = delete;
  typed_key& operator=(const typed_key&) = delete;
  inline void operator()(const leaf& x, std::string_view, const tensor_type& type) {
    std::construct_at(&leaves_[leaf_count_++], x.data, x.extents, x.uniform);
    for (int d = 0; d < type.dims.rank; ++d)
      if (!type.dims[d].is_number()) words_[word_count_++] = x.extents->at(d);
  }
  view<const leaf> leaves() const { return {leaves_, leaf_count_}; }
  view<const std::int64_t> words() const { return {words_, word_count_}; }

 private:
  union {
    leaf leaves_[Leaves];
  };
  std::int64_t words_[Words + 1];
  std::size_t leaf_count_ = 0, word_count_ = 0;
};

/// Same, for any expressions: the words include the contents of each `dynamic`.
class evaluation_key {
 public:
  evaluation_key() {}
  evaluation_key(const evaluation_key&) = delete;
  evaluation_key& operator=(const evaluation_key&) = delete;
  ~evaluation_key();

  void operator()(const leaf& x, std::string_view, const tensor_type& type);
  void attribute(std::int64_t word) {
    if (word_count_ == word_capacity_) more_words();
    words_[word_count_++] = word;
  }
  /// Adds an address that identifies a type; its object lives as long as the process.
  void tag(const void* address) { attribute(std::bit_cast<std::int64_t>(address)); }
  /// Adds the contents of a `dynamic`, or a reference if visited before.
  void enter(const dynamic_node* node);
  /// Whether a shared part is visited for the first time; otherwise adds a reference to it.
  bool first(const void* part);
  template <class X> void meet(const data_leaf<X>& x) { seen_.meet(x); }

  view<const leaf> leaves() const { return {leaves_, leaf_count_}; }
  view<const std::int64_t> words() const { return {words_, word_count_}; }

 private:
  void more_words();
  union {
    leaf few_leaves_[64];
  };  // a union: only elements in use are constructed
  std::int64_t few_words_[256];
  leaf* leaves_ = few_leaves_;
  std::int64_t* words_ = few_words_;
  std::size_t leaf_count_ = 0, leaf_capacity_ = std::size(few_leaves_), word_count_ = 0,
              word_capacity_ = std::size(few_words_);
  std::unique_ptr<leaf[]> many_leaves_;
  std::unique_ptr<std::int64_t[]> many_words_;
  address_numbers parts_;
  data_seen seen_;
};

}  // namespace lamina::detail
