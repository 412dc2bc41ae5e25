// lamina's convolution: channel-blocked buffers and packed weights, as in a plan.
#include "conv.h"

#include <memory>

#include "families.h"

namespace bench::conv {
namespace {

namespace k = ::lamina::kernels;

// Groups of a convolution that are convolutions of their own: of more than one channel.
long sets_of(const problem& p) { return p.groups == p.channels ? 1 : p.groups; }

// The window of one set of filters.
k::window window_of(const problem& p) {
  k::window w{};
  w.channels = p.channels, w.height = p.size, w.width = p.size;
  w.out_channels = p.out_channels, w.out_height = p.out_size(), w.out_width = p.out_size();
  w.kernel_h = p.kernel, w.kernel_w = p.kernel, w.stride_h = p.stride, w.stride_w = p.stride;
  w.pad_h = p.padding, w.pad_w = p.padding, w.dilation_h = 1, w.dilation_w = 1, w.groups = p.groups;
  return sets_of(p) > 1 ? w.of_one_group() : w;
}

long floats(std::size_t bytes) { return static_cast<long>(bytes / sizeof(float)) + 1; }

struct state {
  buffer in, weight, bias, out, scratch;
  k::conv_grouped_args args;
};

}  // namespace

library lamina() {
  const auto bind = [](const problem& p) -> bound {
    const k::conv_functions& conv = k::conv_of(program_isa);
    constexpr long block = k::lanes(program_isa);
    const long pixels = p.out_size() * p.out_size();
    const auto rounded = [](long channels) { return (channels + block - 1) / block * block; };
    const int planar = p.groups == 1 && p.channels < block ? 1 : 0;

    k::conv_blocked_args args{};
    args.w = window_of(p);
    const long sets = sets_of(p);
    args.count = 1;
    args.high = __builtin_inff(), args.clamp = 1, args.planar_in = planar;
    if (!conv.blocked.supports(&args.w, planar)) {
      std::fprintf(stderr, "a convolution is not supported\n");
      std::exit(1);
    }
    const k::kernel run = conv.blocked.prepare(&args);
    const long filters = static_cast<long>(conv.blocked.packed_bytes(&args.w, planar) / sizeof(float));
    const auto s = std::make_shared<state>(state{
        buffer((planar ? p.channels : rounded(p.channels)) * p.size * p.size), buffer(sets * filters + 1),
        buffer(rounded(p.out_channels)), buffer(rounded(p.out_channels) * pixels),
        buffer(floats(conv.blocked.scratch_bytes(&args))), k::conv_grouped_args{args, run, 0, sets, sets, filters}});
    if (planar) {
      std::copy_n(p.in, p.channels * p.size * p.size, s->in.data());
    } else {
      const k::reorder_args reorder{p.in, s->in.data(), 1, p.channels, p.size * p.size};
      conv.to_blocked(&reorder, s->scratch.data());
    }
    const k::conv_pack_args pack{args.w, p.weight, s->weight.data(), planar, 0, sets};
    conv.blocked.pack(&pack, s->scratch.data());
    std::fill_n(s->bias.data(), s->bias.size(), 0.f);
    std::copy_n(p.bias, p.out_channels, s->bias.data());
    auto& a = s->args.conv;
    a.in = s->in.data(), a.weight = s->weight.data(), a.bias = s->bias.data(), a.out = s->out.data();
    return {[&conv, s] {
              if (s->args.groups > 1) conv.grouped(&s->args, s->scratch.data());
              else s->args.conv_run(&s->args.conv, s->scratch.data());
            },
            [&conv, s, p, pixels](float* plain) {
              const k::reorder_args reorder{s->out.data(), plain, 1, p.out_channels, pixels};
              conv.from_blocked(&reorder, s->scratch.data());
            }};
  };
  return {"lamina", "", program_isa_name, bind};
}

}  // namespace bench::conv
