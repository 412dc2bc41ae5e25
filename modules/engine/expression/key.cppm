// What the plan of an evaluation depends on: the structure of its expressions as numbers, and their leaves.
export module lamina:expression.key;
import :core;
import :expression;
import :expression.data;
import :program;
import :shape;
import lamina.std;

namespace lamina::detail {

class dynamic_node;

/// Numbers addresses in the order in which they are first met.
class address_numbers {
 public:
  /// The number of an address; it is new if that was `count()`.
  inline std::size_t number(const void* address) {
    if (table_.empty()) {
      for (std::size_t i = 0; i < count_; ++i)
        if (few_[i] == address) return i;
      if (count_ < std::size(few_)) return few_[count_] = address, count_++;
    }
    return number_among_many(address);
  }
  bool knows(const void* address) const;
  std::size_t count() const { return count_; }

 private:
  struct place { const void* address; std::size_t after; };       // its number + 1; 0: free
  std::size_t number_among_many(const void* address);
  std::size_t place_of(const void* address) const;
  const void* few_[8];
  std::size_t count_ = 0;
  std::vector<place> table_;               // where there are many: all of them, in at most half of the places
};

/// Takes what an evaluation depends on. Two evaluations of expressions of one type have equal words if they differ in
/// nothing but the addresses of their leaves, which stand in the order in which `lower` meets them.
class evaluation_key {
 public:
  inline evaluation_key() {}
  evaluation_key(const evaluation_key&) = delete;
  evaluation_key& operator=(const evaluation_key&) = delete;
  inline ~evaluation_key() {}

  inline void operator()(const leaf& x, std::string_view, const tensor_type& type) {
    if (leaf_count_ == leaf_room_) more_leaves();
    std::construct_at(&leaves_[leaf_count_++], x.data, x.extents, x.uniform);
    for (int d = 0; d < type.dims.rank; ++d)
      if (!type.dims[d].is_number()) attribute(x.extents->at(d));
  }
  inline void attribute(std::int64_t word) {
    if (word_count_ == word_room_) more_words();
    words_[word_count_++] = word;
  }
  /// The address of something that lives as long as the program and says a type.
  inline void tag(const void* address) { attribute(std::bit_cast<std::int64_t>(address)); }
  /// What stands behind a `dynamic`; where it was met before, a reference to it.
  void enter(const dynamic_node* node);
  /// Whether a part that several nodes share is met for the first time; else a reference to it is taken.
  bool first(const void* part);
  template <class X>
  inline void meet(const data_leaf<X>& x) { seen_.meet(x); }

  view<const leaf> leaves() const { return {leaves_, leaf_count_}; }
  view<const std::int64_t> words() const { return {words_, word_count_}; }

 private:
  void more_leaves();
  void more_words();
  union { leaf few_leaves_[64]; };         // only those that are taken are ever made
  std::int64_t few_words_[128];
  leaf* leaves_ = few_leaves_;
  std::int64_t* words_ = few_words_;
  std::size_t leaf_count_ = 0, leaf_room_ = 64, word_count_ = 0, word_room_ = 128;
  std::vector<leaf> many_leaves_;
  std::vector<std::int64_t> many_words_;
  address_numbers parts_;
  data_seen seen_;
};

}  // namespace lamina::detail
