// Training steps whose shards depend on each other: the gradient program is split into stages at sums over shards.
module lamina:train.lockstep.impl;
import :context;
import :core;
import :dtype;
import :model;
import :op;
import :op.elementwise;
import :program;
import :rewriter;
import :session;
import :shape;
import :tensor;
import :train.batch.impl;
import :train.blocks.impl;
import :train.replicas;
import lamina.std;

namespace lamina {

bool is_shard_sum(const node& n) { return n.kind == node_kind::operation && is_call_of<op::sum_over_shards>(n); }
/// Whether a program has sums over shards.
bool shards_wait(const program& p) {
  const auto needed = p.reachable();
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (needed[i] && is_shard_sum(p.nodes()[i])) return true;
  return false;
}

/// Data of a shard between stages: its operands, values kept for later stages, and its metrics.
struct lockstep_shard {
  std::vector<shape> extents{};
  std::vector<std::vector<std::byte>> memory{};
  std::vector<any_tensor> kept{};
  double loss = 0;                     // times the share
  std::array<std::int64_t, 2> hits{};  // hits and ignored targets
  std::int64_t samples = 0;            // 0: an empty shard, which adds nothing

  /// Copies samples; `share` is their fraction of the batch, `shift` is added to the step of random numbers.
  void take(const batch_operands& from, dtype element, const std::array<std::int64_t, 2>& shift, double share) {
    samples = from.count();
    extents = from.shapes();
    for (std::size_t i = 0; i < extents.size(); ++i)
      add(from.data()[i], static_cast<std::size_t>(extents[i].size()) * size_of(from.types()[i]));
    const auto single = static_cast<float>(share);
    if (element == dtype::float64) add(&share, sizeof share);
    else add(&single, sizeof single);
    add(shift.data(), sizeof shift);
    extents.emplace_back();
    extents.push_back(shape{2});
  }

 private:
  void add(const void* data, std::size_t bytes) {
    memory.emplace_back(bytes);
    if (bytes) std::memcpy(memory.back().data(), data, bytes);
  }
};

/// The stages of a program with sums over shards. A stage has all that can be computed from the sums of earlier stages:
/// each one runs for all shards of this process, then its sums are added pairwise, across processes too.
class lockstep_stages {
 public:
  /// The outputs of `whole` are the loss, hits, and then numbers of a block, at `places`.
  lockstep_stages(const program& whole, const model_core& net, const std::shared_ptr<context>& where, dtype element,
                  std::vector<number_range> places, replicas* others)
      : whole_(whole), element_(element), places_(std::move(places)), others_(others), level_(whole.nodes().size(), 0) {
    const auto needed = whole.reachable();
    find_levels(needed);
    find_crossings(needed);
    for (int s = 0; s <= last_level_; ++s) add_stage(s, net, where);
  }
  /// Computes the contributions of all shards of this process to a zeroed block.
  void run(std::vector<lockstep_shard>& shards, number_block& block) {
    for (auto& s : stages_) {
      s.sums.restart();
      for (auto& shard : shards) {
        number_block part = s.sums.take();
        part.clear();
        if (shard.samples > 0) run(s, shard, part);
        s.sums.add(std::move(part));
      }
      number_block& total = s.sums.total();
      if (others_ && s.sum_numbers > 0) {
        total.begin_sum(*others_, {0, s.sum_numbers});
        others_->finish_sums();
      }
      for (const auto& g : s.gives)
        if (g.kind == result_kind::number)
          std::memcpy(block.at(places_[g.index].first), total.at(g.numbers.first),
                      static_cast<std::size_t>(g.numbers.count) * size_of(element_));
    }
  }

 private:
  enum class result_kind { shard_sum, kept, loss, hits, number };
  struct result {
    result_kind kind;
    std::size_t index;       // index of the sum, kept value or block position
    number_range numbers{};  // position in the block of the stage
  };
  struct crossing {
    value_id from;
    bool is_sum;
    std::size_t index;  // index of the stage with the sum, or of the kept value
    number_range numbers{};
  };
  struct stage {
    session run;
    std::vector<std::size_t> takes{};  // crossings that are inputs after those of the whole program
    std::vector<result> gives{};
    std::int64_t sum_numbers = 0;  // size of the sums over shards, which come first in the block
    pairwise_sum sums;
  };
  using value_order = std::pair<std::int32_t, std::int32_t>;

  int& level(std::int32_t node) { return level_[static_cast<std::size_t>(node)]; }
  bool is_operation(value_id v) const { return whole_.at(v).kind == node_kind::operation; }
  // Finds the stage that computes each node; for a sum over shards, the first stage that can read it.
  void find_levels(const std::vector<char>& needed) {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(needed.size()); ++i) {
      if (!needed[static_cast<std::size_t>(i)]) continue;
      const node& n = whole_.at(i);
      for (const auto v : n.inputs) level(i) = std::max(level(i), level(v.node));
      if (is_shard_sum(n)) {
        if (n.results[0].element != element_ || !n.results[0].dims.is_static()) {
          text t;
          detail::raise(error_kind::shape, t << n.path << ": sum_over_shards takes " << name_of(element_)
                                             << " of known extents where a batch has shards; got " << n.results[0]);
        }
        ++level(i);
      }
      last_level_ = std::max(last_level_, level(i));
    }
  }
  // Adds a value that stage `in` reads but does not compute.
  void add_crossing(value_id v, int in) {
    if (!is_operation(v)) return;
    const bool is_sum = is_shard_sum(whole_.at(v));
    if (!is_sum && level(v.node) == in) return;
    if (const value_order key{v.node, v.result}; crossing_of_.emplace(key, crossings_.size()).second)
      crossings_.push_back({v, is_sum, is_sum ? static_cast<std::size_t>(level(v.node) - 1) : kept_++});
    reads_[static_cast<std::size_t>(in)].insert({v.node, v.result});
  }
  void find_crossings(const std::vector<char>& needed) {
    reads_.resize(static_cast<std::size_t>(last_level_) + 1);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(needed.size()); ++i) {
      const node& n = whole_.at(i);
      if (!needed[static_cast<std::size_t>(i)] || n.kind != node_kind::operation) continue;
      for (const auto v : n.inputs) add_crossing(v, is_shard_sum(n) ? level(i) - 1 : level(i));
    }
    for (const auto& o : whole_.outputs()) add_crossing(o.value, level(o.value.node));
  }
  void add_stage(int number, const model_core& net, const std::shared_ptr<context>& where) {
    auto code = std::make_shared<program>();
    rewriter copy(whole_, *code);
    copy.copy_inputs();
    std::vector<std::size_t> takes;
    for (const auto& [node, result] : reads_[static_cast<std::size_t>(number)]) {
      const value_id v{node, result};
      copy.set(v, code->input("kept", whole_.at(v).results[static_cast<std::size_t>(v.result)]));
      takes.push_back(crossing_of_.at({node, result}));
    }
    std::vector<result> gives;
    std::int64_t numbers = 0;
    const auto give = [&](result_kind kind, std::size_t index, value_id v) {
      const value given = copy.reach(v);
      code->output("given", given);
      gives.push_back({kind, index});
      if (kind != result_kind::shard_sum && kind != result_kind::number) return;
      gives.back().numbers = {numbers, given.type().dims.size()};
      numbers += gives.back().numbers.count;
    };
    for (auto& c : crossings_)
      if (c.is_sum && c.index == static_cast<std::size_t>(number)) {
        give(result_kind::shard_sum, 0, whole_.at(c.from).inputs[0]);
        c.numbers = gives.back().numbers;
      }
    const std::int64_t sum_numbers = numbers;
    for (const auto& c : crossings_)
      if (!c.is_sum && level(c.from.node) == number) give(result_kind::kept, c.index, c.from);
    for (std::size_t o = 0; o < whole_.outputs().size(); ++o) {
      const value_id v = whole_.outputs()[o].value;
      if ((is_operation(v) ? level(v.node) : 0) != number) continue;
      give(o == 0 ? result_kind::loss : o == 1 ? result_kind::hits : result_kind::number, o < 2 ? 0 : o - 2, v);
    }
    stages_.push_back({net.session_of(code, where), std::move(takes), std::move(gives), sum_numbers,
                       pairwise_sum(element_, numbers)});
  }

  // Runs one stage for one shard.
  void run(stage& s, lockstep_shard& shard, number_block& part) {
    shard.kept.resize(kept_);
    std::vector<shape> extents = shard.extents;
    std::vector<const void*> data;
    for (const auto& m : shard.memory) data.push_back(m.data());
    for (const auto t : s.takes) {
      const crossing& c = crossings_[t];
      if (c.is_sum) {
        extents.push_back(whole_.at(c.from).results[0].dims);
        data.push_back(stages_[c.index].sums.total().at(c.numbers.first));
      } else {
        extents.push_back(shard.kept[c.index].shape());
        data.push_back(shard.kept[c.index].data());
      }
    }
    double loss64 = 0;
    float loss32 = 0;
    bool has_loss = false;
    s.run.run(view<const shape>(extents), view<const void* const>(data.data(), data.size()),
              [&](std::size_t i, const tensor_type& type) -> void* {
                const result& g = s.gives[i];
                switch (g.kind) {
                  case result_kind::loss:
                    has_loss = true;
                    return element_ == dtype::float64 ? static_cast<void*>(&loss64) : &loss32;
                  case result_kind::hits: return shard.hits.data();
                  case result_kind::kept:
                    shard.kept[g.index] = any_tensor(storage(type.bytes()), type);
                    return shard.kept[g.index].mutable_data();
                  default: return part.at(g.numbers.first);
                }
              });
    if (has_loss) shard.loss = element_ == dtype::float64 ? loss64 : static_cast<double>(loss32);
  }

  const program& whole_;
  dtype element_;
  std::vector<number_range> places_;
  replicas* others_;
  std::vector<int> level_;
  int last_level_ = 0;
  std::vector<crossing> crossings_;
  std::map<value_order, std::size_t> crossing_of_;
  std::size_t kept_ = 0;                      // number of values that a shard keeps
  std::vector<std::set<value_order>> reads_;  // values read by each stage
  std::vector<stage> stages_;
};

}  // namespace lamina
