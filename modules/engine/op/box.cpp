// Helpers of operations that emit kernel calls: boxes between two buffers, fills, images in parts, and the name that
// error messages of a run use.
module;
#include "../kernels/families.h"
module lamina:op.box;
import :context;
import :core;
import :dtype;
import :emission;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::detail {

/// A box of elements between two buffers, with strides in elements.
struct box {
  shape extent;
  std::int64_t in_stride[max_rank]{}, out_stride[max_rank]{};
  std::int64_t in_first = 0, out_first = 0;

  static box whole(const shape& s) {
    box b;
    b.extent = s;
    row_major_strides(s, b.in_stride);
    row_major_strides(s, b.out_stride);
    return b;
  }
};

/// A copy of a box, with the kernel that fits it.
struct box_step {
  kernels::copy_args box;
  kernels::copy_bytes_args bytes{};  // used if its elements are contiguous on both sides
  explicit box_step(const kernels::copy_args& a) : box(a) {
    std::int64_t elements = 1;
    for (int k = a.axes - 1; k >= 0; --k) {
      if (a.extent[k] != 1 && (a.in_stride[k] != elements || a.out_stride[k] != elements)) return;
      elements *= a.extent[k];
    }
    bytes.bytes = elements * a.size;
  }
  /// Calls step(kernel, args, from, to), where from and to are the address members of args.
  template <class F> void add(const kernels::copy_functions& f, F step) {
    if (bytes.bytes) step(f.copy_bytes, bytes, &bytes.in, &bytes.out);
    else step(f.copy, box, &box.in, &box.out);
  }
};

/// Parts of one image: 1, 2 or 4, each of at least `grain` flops; 1 where there are images for every thread.
inline std::int64_t parts_of_image(const emission& e, std::int64_t images, double flops_per_image, double grain) {
  constexpr std::int64_t max = 4;
  if (e.compact() || images >= max) return 1;
  const auto wanted = std::clamp(static_cast<std::int64_t>(flops_per_image / grain), std::int64_t(1), max);
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(wanted)));
}

constexpr std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

/// The largest part, in rows, of a map of `rows` that is cut into `parts` of whole bands.
[[gnu::noinline]] constexpr std::int64_t largest_part(std::int64_t rows, std::int64_t rows_per_band,
                                                      std::int64_t parts) {
  const std::int64_t bands = divide_up(rows, rows_per_band);
  const auto begin = [&](std::int64_t part) { return std::min(part * bands / parts * rows_per_band, rows); };
  std::int64_t largest = 0;
  for (std::int64_t i = 0; i < parts; ++i) largest = std::max(largest, begin(i + 1) - begin(i));
  return largest;
}

/// Rows per band, from `min` or half of `max` to `max`, for which two threads, and then four, have the most equal
/// parts.
constexpr std::int64_t balanced_band(std::int64_t rows, std::int64_t min, std::int64_t max) {
  const auto parts_with = [&](std::int64_t band) {
    return std::tuple(largest_part(rows, band, 2), largest_part(rows, band, 4), -band);
  };
  auto best = parts_with(max);
  for (std::int64_t band = max - 1; band >= min && 2 * band >= max; --band) best = std::min(best, parts_with(band));
  return -std::get<2>(best);
}
static_assert(balanced_band(112, 1, 36) == 28 && balanced_band(56, 1, 6) == 4 && balanced_band(56, 5, 6) == 5);

/// Channel blocks of a piece: two, as tiles of convolutions have, unless pairs give unequal halves.
constexpr std::int64_t blocks_of_piece(std::int64_t blocks) {
  return largest_part(blocks, 1, 2) < largest_part(blocks, 2, 2) ? 1 : 2;
}

/// The parts of some work: at most 16, as `emission::cut` makes.
template <class Part> class part_list {
 public:
  void push_back(const Part& p) { parts_[count_++] = p; }
  const Part* begin() const { return parts_; }
  const Part* end() const { return parts_ + count_; }
  std::size_t size() const { return count_; }

 private:
  Part parts_[16];
  std::size_t count_ = 0;
};

/// A part of work on images: `count` whole images, or a part of one.
struct image_part {
  std::int64_t first, count;
  std::int64_t first_piece = 0, pieces = 0;  // pieces 0: whole images
};
/// Runs of whole images, of at least `grain` flops; with fewer than four images, equal parts of each, of at least
/// `part_grain`, out of the `pieces` of an image, such as rows or channel blocks.
part_list<image_part> parts_of_images(const emission& e, std::int64_t images, double flops_per_image, double grain,
                                      double part_grain, std::int64_t pieces) {
  part_list<image_part> all;
  std::int64_t parts = parts_of_image(e, images, flops_per_image, part_grain);
  while (parts > pieces) parts /= 2;
  if (parts <= 1)
    e.cut_for_threads(
        images, flops_per_image, [&](std::int64_t first, std::int64_t count) { all.push_back({first, count}); }, grain);
  else
    for (std::int64_t i = 0; i < images * parts; ++i) {
      const std::int64_t first = i % parts * pieces / parts;
      all.push_back({i / parts, 1, first, (i % parts + 1) * pieces / parts - first});
    }
  return all;
}

/// Images that parts of a convolution read, `bytes` each; `joined`: copies in the form that its kernel reads.
struct read_images {
  buffer_ref at;
  std::int64_t bytes;
  bool joined = false;
};
/// Copies `images` by f.join in a stage of its own, so that parts by channels share the copies. `a`: its arguments, whose
/// addresses but that of the result are `where`; `plain`: images are in plain layout.
template <class Functions, class Arguments> read_images join_images(emission& e, const Functions& f, Arguments& a,
                                                                    bool plain, std::int64_t images,
                                                                    std::vector<address> where) {
  const std::size_t image = f.joined_bytes(&a.w, plain);
  const std::int64_t maps = f.joined_maps(&a.w, plain);
  const buffer_ref to = e.temporary(static_cast<std::size_t>(images) * image);
  where.push_back({&a.out, to});
  e.cut_for_threads(images * maps, static_cast<double>(image) / static_cast<double>(maps),
                    [&](std::int64_t first, std::int64_t count) {
                      a.first = first, a.count = count;
                      e.step(f.join, a, where);
                    });
  e.stage();
  return {to, static_cast<std::int64_t>(image), true};
}

void emit_box(emission& e, const box& b, buffer_ref from, buffer_ref to, dtype element) {
  if (b.extent.size() == 0) return;
  kernels::copy_args a{};
  a.size = static_cast<std::int32_t>(size_of(element));
  a.axes = b.extent.rank;
  for (int i = 0; i < b.extent.rank; ++i) {
    a.extent[i] = b.extent.at(i);
    a.in_stride[i] = b.in_stride[i];
    a.out_stride[i] = b.out_stride[i];
  }
  if (a.axes == 0) {
    a.axes = 1;
    a.extent[0] = 1;
    a.in_stride[0] = a.out_stride[0] = 1;
  }
  auto size = static_cast<std::int64_t>(a.size);
  from = from.at(b.in_first * size);
  to = to.at(b.out_first * size);
  const auto& functions = kernels::copies_of(e.isa());
  // The first axis with more than one position is cut into steps.
  int axis = 0;
  while (axis + 1 < a.axes && a.extent[axis] == 1) ++axis;
  double cost = static_cast<double>(b.extent.size()) / static_cast<double>(a.extent[axis]) * 4;
  constexpr std::int64_t line = 64;  // bytes of a cache line, which should belong to one part
  const std::int64_t step = std::min(std::abs(a.in_stride[axis]), std::abs(a.out_stride[axis])) * size;
  e.cut_for_threads(
      a.extent[axis], cost,
      [&](std::int64_t first, std::int64_t count) {
        kernels::copy_args part = a;
        part.extent[axis] = count;
        box_step(part).add(functions, [&](auto run, auto& args, auto* in, auto* out) {
          e.step(run, args,
                 {{in, from.at(first * a.in_stride[axis] * size)}, {out, to.at(first * a.out_stride[axis] * size)}});
        });
      },
      emission::usual_grain, step >= line ? 1 : 16);
}

/// Copies the whole operand, where the planner could not make the result a view.
void emit_copy(emission& e) {
  box b;
  b.extent = shape{dim(e.out_type(0).dims.size())};
  b.in_stride[0] = b.out_stride[0] = 1;
  emit_box(e, b, e.in(0), e.out(0), e.out_type(0).element);
}

/// Sets `n` elements from `to` on to a number, by default zero.
void emit_fill(emission& e, buffer_ref to, std::int64_t n, dtype element, double number = 0) {
  const auto fill = kernels::copies_of(e.isa()).fill;
  auto size = static_cast<std::int64_t>(size_of(element));
  emission::cut(
      n, static_cast<double>(size) / 4,
      [&](std::int64_t first, std::int64_t count) {
        kernels::fill_args a{};
        a.n = count;
        a.size = static_cast<std::int32_t>(size);
        with_type(element, [&]<class T>() {
          T v{};
          to_element(number, v);
          std::memcpy(a.value, &v, sizeof v);
        });
        e.step(fill, a, {{&a.out, to.at(first * size)}});
      },
      emission::usual_grain, 64);
}

/// The packed form of a value: cached with its parameter, or packed in each run from `plain` where the plan caches
/// none.
buffer_ref packed_or_temporary(emission& e, value_id v, const std::function<buffer_ref()>& plain, std::uint64_t format,
                               std::size_t bytes, const std::function<void(buffer_ref from, buffer_ref to)>& make,
                               bool moves) {
  if (const buffer_ref kept = e.packed(v, format, bytes, make, moves)) return kept;
  const buffer_ref made = e.temporary(bytes);
  make(plain(), made);
  e.stage();
  return made;
}

/// The operation and its layer, for messages.
text named(const emission& e) {
  text t;
  if (!e.of().path.empty()) t << e.of().path << ": ";
  return t << e.of().op->name;
}

}  // namespace lamina::detail
