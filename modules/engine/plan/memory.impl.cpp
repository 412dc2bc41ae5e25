// Offsets for memory blocks that are alive over ranges of time.
module lamina:plan.memory.impl;
import :core;
import :passes;
import :plan;
import lamina.std;

namespace lamina {

namespace {

std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// Sort keys for placing blocks, largest first. `pressure` is the largest number of bytes alive during the block's life.
// Blocks under high pressure have the least choice, so half of the orders place them first.
struct urgency {
  std::size_t bytes, length, pressure;
  std::int32_t first;
  using key = std::pair<std::size_t, std::size_t>;
  static constexpr int orders = 7;
  key in(int order) const {
    const auto late = std::numeric_limits<std::size_t>::max() - static_cast<std::size_t>(first);
    switch (order) {
      case 0: return {bytes, 0};
      case 1: return {pressure, length};
      case 2: return {pressure, bytes};
      case 3: return {length * bytes, 0};
      case 4: return {pressure, late};
      case 5: return {length, bytes};
      default: return {late, 0};
    }
  }
};

// Placed blocks, sorted by offset. Blocks with the same offset are never alive at once, so chunks of neighbors span
// short times, and a search skips most of them.
class placed_blocks {
 public:
  void add(const memory_block& b) {
    const entry e{b.offset, b.offset + static_cast<std::int64_t>(rounded(b.bytes)), b.first, b.last};
    auto at = std::upper_bound(chunks_.begin(), chunks_.end(), e,
                               [](const entry& x, const chunk& c) { return x < c.entries[0]; });
    if (at != chunks_.begin()) --at;
    if (at == chunks_.end()) at = chunks_.emplace(at);
    at->entries.insert(std::upper_bound(at->entries.begin(), at->entries.end(), e), e);
    at->first = std::min(at->first, e.first);
    at->last = std::max(at->last, e.last);
    if (at->entries.size() < static_cast<std::size_t>(2 * half)) return;
    const chunk whole = std::move(*at);
    *at = chunk(whole.entries.begin() + half, whole.entries.end());
    chunks_.emplace(at, whole.entries.begin(), whole.entries.begin() + half);
  }
  // Offset of the smallest sufficient gap during the life of a block, the first of equal ones; above all other blocks
  // if there is none.
  std::int64_t gap_for(const memory_block& b, std::int64_t size) {
    std::int64_t at = 0, chosen = -1, gap = 0;
    for (const auto& c : chunks_) {
      ++visited_;
      if (c.first > b.last || b.first > c.last) continue;
      visited_ += c.entries.size();
      for (const auto& e : c.entries) {
        if (e.first > b.last || b.first > e.last) continue;
        if (e.offset - at >= size && (chosen < 0 || e.offset - at < gap)) {
          chosen = at;
          gap = e.offset - at;
        }
        at = std::max(at, e.end);
      }
    }
    return chosen >= 0 ? chosen : at;
  }
  // Number of entries that all searches visited.
  std::size_t visited() const { return visited_; }

 private:
  struct entry {
    std::int64_t offset, end;
    std::int32_t first, last;
    auto operator<=>(const entry&) const = default;
  };
  struct chunk {
    std::vector<entry> entries;
    std::int32_t first = std::numeric_limits<std::int32_t>::max(), last = -1;
    chunk() = default;
    chunk(std::vector<entry>::const_iterator from, std::vector<entry>::const_iterator to) : entries(from, to) {
      for (const auto& e : entries) {
        first = std::min(first, e.first);
        last = std::max(last, e.last);
      }
    }
  };
  static constexpr std::ptrdiff_t half = 128;
  std::vector<chunk> chunks_;
  std::size_t visited_ = 0;
};

// Limits of the placement work for one plan: with very many blocks fewer alternatives are tried. Counts, not times, so
// that planning is deterministic.
constexpr std::size_t max_visited = 200'000'000, max_choices = 100'000'000;

// Best fit in the given order: a block takes the smallest sufficient gap. Returns the required bytes, and adds the
// search work to `visited`.
std::size_t place_in_gaps(view<memory_block> blocks, const std::vector<std::size_t>& order, std::size_t& visited) {
  std::int64_t bytes = 0;
  placed_blocks placed;
  for (auto i : order) {
    auto& b = blocks[i];
    const auto size = static_cast<std::int64_t>(rounded(b.bytes));
    b.offset = placed.gap_for(b, size);
    bytes = std::max(bytes, b.offset + size);
    placed.add(b);
  }
  visited += placed.visited();
  return static_cast<std::size_t>(bytes);
}

// Dynamic programming over the blocks in order of time: each takes the memory of dead blocks, which grows if necessary,
// or its own. Keeps up to 64 partial assignments with the fewest bytes; fewer if there are very many blocks, of which
// `together` are alive at once.
std::size_t place_in_order(view<memory_block> blocks, std::size_t together) {
  struct region {
    std::size_t bytes;
    std::int32_t last;
  };
  struct assignment {
    std::size_t bytes = 0;
    std::vector<region> regions{};
  };
  struct choice {
    std::size_t bytes;
    std::uint32_t from;
    std::int32_t region;  // -1: a new one
    auto operator<=>(const choice&) const = default;
  };
  const std::size_t kept =
      std::clamp<std::size_t>(max_choices / std::max<std::size_t>(blocks.size() * together, 1), 1, 64);
  const auto order =
      detail::stable_order(blocks.size(), [&](auto x, auto y) { return blocks[x].first < blocks[y].first; });
  std::vector<assignment> all(1), next;
  std::vector<std::vector<choice>> taken;  // by block and assignment
  std::vector<choice> choices;
  for (auto i : order) {
    const auto& b = blocks[i];
    const auto size = rounded(b.bytes);
    choices.clear();
    for (std::uint32_t a = 0; a < all.size(); ++a) {
      choices.push_back({all[a].bytes + size, a, -1});
      for (std::size_t r = 0; r < all[a].regions.size(); ++r)
        if (const auto& region = all[a].regions[r]; region.last < b.first)
          choices.push_back(
              {all[a].bytes + (size > region.bytes ? size - region.bytes : 0), a, static_cast<std::int32_t>(r)});
    }
    const std::size_t count = std::min(kept, choices.size());
    std::partial_sort(choices.begin(), choices.begin() + static_cast<std::ptrdiff_t>(count), choices.end());
    choices.resize(count);
    std::vector<std::size_t> left(all.size());  // how many choices still extend each
    for (const auto& c : choices) ++left[c.from];
    next.clear();
    for (auto& c : choices) {
      assignment a = --left[c.from] ? all[c.from] : std::move(all[c.from]);
      a.bytes = c.bytes;
      if (c.region < 0) {
        c.region = static_cast<std::int32_t>(a.regions.size());
        a.regions.push_back({size, b.last});
      } else {
        auto& used = a.regions[static_cast<std::size_t>(c.region)];
        used = {std::max(used.bytes, size), b.last};
      }
      next.push_back(std::move(a));
    }
    std::swap(all, next);
    taken.push_back(choices);
  }
  std::vector<std::int64_t> offset;
  std::int64_t at = 0;
  for (const auto& r : all[0].regions) {
    offset.push_back(at);
    at += static_cast<std::int64_t>(r.bytes);
  }
  std::uint32_t from = 0;
  for (auto k = order.size(); k-- > 0;) {
    const choice& c = taken[k][from];
    blocks[order[k]].offset = offset[static_cast<std::size_t>(c.region)];
    from = c.from;
  }
  return static_cast<std::size_t>(at);
}

// Maximum of any range of an array, in constant time.
class range_maximum {
 public:
  explicit range_maximum(std::vector<std::size_t> all) : levels_{std::move(all)} {
    for (std::size_t width = 1; 2 * width <= levels_[0].size(); width *= 2) {
      const auto& below = levels_.back();
      std::vector<std::size_t> pairs(levels_[0].size() + 1 - 2 * width);
      for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = std::max(below[i], below[i + width]);
      levels_.push_back(std::move(pairs));
    }
  }
  std::size_t operator()(std::size_t first, std::size_t last) const {
    const auto level = static_cast<std::size_t>(std::bit_width(last - first + 1)) - 1;
    return std::max(levels_[level][first], levels_[level][last + 1 - (std::size_t(1) << level)]);
  }

 private:
  std::vector<std::vector<std::size_t>> levels_;
};

// Bytes alive at each time, and the largest number of blocks alive at once.
std::vector<std::size_t> bytes_alive(view<const memory_block> blocks, std::size_t& together) {
  std::int32_t end = 0;
  for (const auto& b : blocks) end = std::max(end, b.last + 1);
  std::vector<std::size_t> alive(static_cast<std::size_t>(end) + 1), count(alive.size());
  for (const auto& b : blocks) {
    if (b.last < b.first) continue;
    const auto first = static_cast<std::size_t>(b.first), after = static_cast<std::size_t>(b.last) + 1;
    alive[first] += rounded(b.bytes), ++count[first];
    alive[after] -= rounded(b.bytes), --count[after];  // unsigned wraparound cancels in the sums
  }
  for (std::size_t t = 1; t < alive.size(); ++t) alive[t] += alive[t - 1], count[t] += count[t - 1];
  together = *std::max_element(count.begin(), count.end());
  return alive;
}

// Picks the best of several best-fit orders, and of dynamic programming if none of them reaches the lower bound.
std::size_t place_best(view<memory_block> blocks, const std::vector<std::size_t>& alive, std::size_t live_peak,
                       std::size_t together, bool greedy) {
  const range_maximum max(alive);
  std::vector<urgency> urgencies;
  for (auto& b : blocks) {
    const std::size_t pressure =
        b.last < b.first ? 0 : max(static_cast<std::size_t>(b.first), static_cast<std::size_t>(b.last));
    urgencies.push_back({b.bytes, static_cast<std::size_t>(b.last - b.first + 1), pressure, b.first});
  }
  std::vector<std::int64_t> best(blocks.size());
  std::size_t best_bytes = std::numeric_limits<std::size_t>::max(), visited = 0;
  const auto keep = [&](std::size_t bytes) {
    if (bytes >= best_bytes) return;
    best_bytes = bytes;
    for (std::size_t i = 0; i < blocks.size(); ++i) best[i] = blocks[i].offset;
  };
  const int orders = greedy ? 1 : urgency::orders;
  for (int strategy = 0; strategy < orders && best_bytes > live_peak && visited < max_visited; ++strategy) {
    const auto order = detail::stable_order(
        blocks.size(), [&](auto x, auto y) { return urgencies[x].in(strategy) > urgencies[y].in(strategy); });
    keep(place_in_gaps(blocks, order, visited));
  }
  if (!greedy && best_bytes > live_peak) keep(place_in_order(blocks, together));
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].offset = best[i];
  return best_bytes;
}

}  // namespace

std::size_t place_blocks(view<memory_block> blocks, std::size_t& live_peak, memory_sharing how) {
  live_peak = 0;
  if (blocks.empty()) return 0;
  std::size_t together = 0;
  const auto alive = bytes_alive({blocks.data(), blocks.size()}, together);
  live_peak = *std::max_element(alive.begin(), alive.end());
  switch (how) {
    case memory_sharing::dynamic: return place_in_order(blocks, together);
    case memory_sharing::none: {
      std::int64_t at = 0;
      for (auto& b : blocks) {
        b.offset = at;
        at += static_cast<std::int64_t>(rounded(b.bytes));
      }
      return static_cast<std::size_t>(at);
    }
    case memory_sharing::greedy: return place_best(blocks, alive, live_peak, together, true);
    case memory_sharing::best: break;
  }
  return place_best(blocks, alive, live_peak, together, false);
}

}  // namespace lamina
