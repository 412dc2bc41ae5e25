// Memory that the steps of a plan touch: checks for overlaps, and finds when outputs are final.
module lamina:plan.verify.impl;
import :core;
import :plan;
import lamina.std;

namespace lamina {

namespace {

// An access of a step to a buffer of the arena.
struct touch {
  std::int32_t stage;
  std::uint32_t step;
  std::int64_t address;
  auto operator<=>(const touch&) const = default;
};
struct life {
  std::int32_t first = std::numeric_limits<std::int32_t>::max(), last = -1;
  std::vector<touch> touches{};
  void add(std::int32_t stage) {
    first = std::min(first, stage);
    last = std::max(last, stage);
  }
};

// Finds the step of a run whose arguments contain an address; for a step inside a loop, the loop. -1: only packing.
class step_finder {
 public:
  explicit step_finder(const plan& p) : steps_(p.steps()), parent_(steps_.size(), -1) {
    for (std::size_t i = 0; i < steps_.size(); ++i) at_.push_back({steps_[i].arguments, static_cast<std::int32_t>(i)});
    std::sort(at_.begin(), at_.end());
    for (const auto& l : p.loops())
      for (std::uint32_t i = 0; i < l.count; ++i) parent_[l.first + i] = find(l.arguments);
    stage_.assign(steps_.size(), -1);
    for (std::size_t s = 0; s < p.stages().size(); ++s)
      for (std::uint32_t i = 0; i < p.stages()[s].count; ++i)
        stage_[p.stages()[s].first + i] = static_cast<std::int32_t>(s);
  }
  std::int32_t of_run(std::uint32_t at) const {
    auto s = find(at);
    while (s >= 0 && parent_[static_cast<std::size_t>(s)] >= 0) s = parent_[static_cast<std::size_t>(s)];
    return s >= 0 && stage_[static_cast<std::size_t>(s)] < 0 ? -1 : s;
  }
  std::int32_t stage(std::int32_t step) const { return stage_[static_cast<std::size_t>(step)]; }

 private:
  std::int32_t find(std::uint32_t at) const {
    auto s = std::upper_bound(at_.begin(), at_.end(), std::pair{at, std::numeric_limits<std::int32_t>::max()});
    return s == at_.begin() ? -1 : std::prev(s)->second;
  }
  const std::vector<plan_step>& steps_;
  std::vector<std::pair<std::uint32_t, std::int32_t>> at_;
  std::vector<std::int32_t> parent_, stage_;
};

// In a stage where one buffer overwrites another, each step reads exactly the addresses that it overwrites.
bool in_place(const life& a, const life& b, std::int32_t stage) {
  auto in = [&](const life& l) {
    std::set<std::pair<std::uint32_t, std::int64_t>> all;
    for (const auto& t : l.touches)
      if (t.stage == stage) all.insert({t.step, t.address});
    return all;
  };
  return in(a) == in(b);
}

}  // namespace

std::string memory_clash(const plan& p) {
  const step_finder steps(p);
  const auto& buffers = p.buffers();
  const auto end = static_cast<std::int32_t>(p.stages().size());
  std::vector<life> lives(buffers.size());
  for (const auto& r : p.relocations()) {
    const auto& b = buffers[static_cast<std::size_t>(r.buffer)];
    if (b.kind != buffer_kind::arena) continue;
    const auto step = steps.of_run(r.at);
    if (step < 0) continue;
    auto& l = lives[static_cast<std::size_t>(r.buffer)];
    l.add(steps.stage(step));
    l.touches.push_back({steps.stage(step), static_cast<std::uint32_t>(step), b.offset + r.offset});
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (lives[i].last < 0) continue;
    // Results that are computed once persist for later runs; checks are reset before a run and read after it.
    const auto once = static_cast<std::int32_t>(p.once_stages());
    bool stays = lives[i].first < once && lives[i].last >= once;
    const auto begin = buffers[i].offset, over = begin + static_cast<std::int64_t>(buffers[i].bytes);
    for (const auto& c : p.checks()) stays = stays || (c.offset >= begin && c.offset < over);
    if (stays) lives[i].add(end);
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (lives[i].last >= 0 && buffers[i].bytes) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return buffers[a].offset < buffers[b].offset; });
  for (std::size_t x = 0; x < order.size(); ++x)
    for (std::size_t y = x + 1; y < order.size(); ++y) {
      const auto a = order[x], b = order[y];
      if (buffers[b].offset >= buffers[a].offset + static_cast<std::int64_t>(buffers[a].bytes)) break;
      const auto from = std::max(lives[a].first, lives[b].first), to = std::min(lives[a].last, lives[b].last);
      if (from > to || (from == to && in_place(lives[a], lives[b], from))) continue;
      text t;
      t << "buffers " << a << " and " << b << " overlap from byte " << buffers[b].offset
        << " of the arena, and both are in use in stages " << from << " to " << to;
      return t.string();
    }
  return {};
}

std::vector<std::size_t> output_stages(const plan& p) {
  const step_finder steps(p);
  std::vector<std::int32_t> last(p.output_types().size(), -1);
  for (const auto& r : p.relocations()) {
    const auto& b = p.buffers()[static_cast<std::size_t>(r.buffer)];
    if (b.kind != buffer_kind::output) continue;
    auto& stage = last[static_cast<std::size_t>(b.index)];
    if (const auto step = steps.of_run(r.at); step >= 0) stage = std::max(stage, steps.stage(step));
  }
  std::vector<std::size_t> stages;
  const std::size_t end = p.stages().empty() ? 0 : p.stages().size() - 1;
  for (const auto s : last) stages.push_back(s < 0 ? end : static_cast<std::size_t>(s));
  return stages;
}

}  // namespace lamina
