// Operations that move parts of images in channel blocks: concatenations, slices, shuffles.
module;
#include "../kernels/families.h"
module lamina:op.channel_blocks;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.box;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::detail {

/// The source of a result's channel.
struct channel_source {
  std::size_t operand;
  std::int64_t channel;
};

/// Channels are moved in blocks if most of the input channels are blocked already.
image_layouts moved_channels(const image_call& c) {
  std::int64_t all = 0, blocked = 0;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    const tensor_type& t = c.in[i];
    if ((t.element != dtype::float32 && t.element != dtype::int8) || t.dims.rank != 4) return {};
    all += t.dims.at(1);
    if (c.in_blocks[i]) blocked += t.dims.at(1);
  }
  if (2 * blocked <= all) return {};
  return {.result = true, .operand = true, .every_operand = true, .zero_padding = true};
}
/// The same for an operation along one axis of images.
image_layouts moved_along(std::int64_t axis, const image_call& c) {
  return c.in[0].dims.rank == 4 && normal_axis(axis, 4) == 1 ? moved_channels(c) : image_layouts{};
}

/// Rows or columns of images are moved where they are in channel blocks.
image_layouts moved_in_maps(std::int64_t axis, const image_call& c) {
  const tensor_type& t = c.in[0];
  const bool moves = c.blocked && t.dims.rank == 4 && normal_axis(axis, 4) >= 2 &&
                     (t.element == dtype::float32 || t.element == dtype::int8);
  return {.result = moves, .operand = moves};
}

/// The memory of images in channel blocks as an array.
shape as_blocks(const emission& e, const shape& images) {
  const std::int64_t lanes = kernels::lanes(static_cast<kernels::isa>(e.isa()));
  return {images[0], dim(divide_up(images.at(1), lanes)), images[2], images[3], dim(lanes)};
}
/// The memory of an operand or result of an operation that keeps the layout, plain or in channel blocks, as an array.
shape stored(emission& e, const shape& s) { return e.out(0).form == layout::blocked ? as_blocks(e, s) : s; }

/// Emits a result in channel blocks, block by block; its channel i is of(i).
template <class F> void emit_channels(emission& e, const F& of) {
  const tensor_type& type = e.out_type(0);
  const std::int64_t channels = type.dims.at(1), lanes = kernels::lanes(static_cast<kernels::isa>(e.isa())),
                     pixels = type.dims.size(2, 4), size = static_cast<std::int64_t>(size_of(type.element));
  if (type.dims.size() == 0) return;
  const auto image = [&](std::int64_t count) { return (count + lanes - 1) / lanes * lanes * pixels; };
  const auto& functions = kernels::conv_of(e.isa());
  for (std::int64_t first = 0; first < channels; first += lanes) {
    kernels::channel_block_args a{};
    std::vector<buffer_ref> from;
    std::vector<address> addresses{{&a.out, e.out(0).at(first * pixels * size)}};
    a.out_image = image(channels);
    a.images = type.dims.at(0);
    a.pixels = pixels;
    std::fill(std::begin(a.block), std::end(a.block), -1);
    for (std::int64_t i = 0; i < std::min(lanes, channels - first); ++i) {
      const channel_source s = of(first + i);
      const buffer_ref block = e.in(s.operand).at(s.channel / lanes * lanes * pixels * size);
      auto k = std::find_if(from.begin(), from.end(), [&](const buffer_ref& b) { return same_place(b, block); }) -
               from.begin();
      if (k == a.blocks) {
        a.in_image[k] = image(e.in_type(s.operand).dims.at(1));
        addresses.push_back({&a.in[k], block});
        from.push_back(block);
        ++a.blocks;
      }
      a.block[i] = static_cast<std::int32_t>(k);
      a.lane[i] = static_cast<std::int32_t>(s.channel % lanes);
    }
    // A block that is in place already, with its lanes in order, needs no step.
    if (a.blocks == 1 && same_place(from[0], e.out(0).at(first * pixels * size))) continue;
    e.step(type.element == dtype::int8 ? functions.channel_block_bytes : functions.channel_block, a, addresses);
  }
}

}  // namespace lamina::detail
