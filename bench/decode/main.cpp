// Token decoding (problem 25): tokens per second, and the share of one core's read bandwidth that it reaches.
#include <algorithm>
#include <string>
#include <vector>

#include "arguments.h"
#include "decode.h"
#include "measure.h"

namespace {

using namespace bench;

struct variant {
  decode::weights of;
  const char* name;
};
constexpr variant variants[] = {{decode::weights::int4, "int4, blocks of 32"},
                                {decode::weights::int8, "int8, blocks of 32"},
                                {decode::weights::bfloat16, "bfloat16"},
                                {decode::weights::float32, "float32"}};

/// Bandwidth at which a token reads its `bytes`, in percent of that of plain reads of `read_bytes`.
double share_of(const call& token, long bytes, long read_bytes) {
  const buffer read(read_bytes / 4096 * 1024);
  const comparison c = compare(token, {[&read] { read_probe(read.data(), read.size()); }});
  const double needed = c.pairs[0].peer.best * static_cast<double>(bytes) / (4.0 * static_cast<double>(read.size()));
  return 100 * needed / c.pairs[0].ours.best;
}

row rate_of(const variant& v, const call& token, int threads) {
  row r;
  r.problem = "25 token decoding";
  r.shape = v.name;
  r.threads = threads;
  r.unit = "tokens/s";
  const comparison c = compare(token, {token});
  r.ours = 1 / std::min(c.pairs[0].ours.best, c.pairs[0].peer.best);
  if (v.of == decode::weights::float32) {
    r.peers = {measured_later("PyTorch")};
    r.floor = "ratio >= 1.0";
  }
  show(r);
  return r;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> cores = usable_cores();
  const arguments a = parse(argc, argv);
  cores.resize(std::min<std::size_t>(cores.size(), 2));
  report all;
  std::vector<row> shares;
  for (const variant& v : variants) {
    if (quick && v.of != decode::weights::int4) continue;
    const auto decoder = decode::make_decoder(v.of, 1);
    const call token = [&decoder] { decoder->token(); };
    all.add(rate_of(v, token, 1));
    constexpr long beyond_caches = 256L << 20;
    row r;
    r.problem = "25 token decoding, share of read bandwidth";
    r.shape = v.name;
    r.unit = "%";
    r.floor = "ours >= 60";
    r.goal = "ours >= 85";
    r.ours = share_of(token, decoder->bytes(), repetitions(beyond_caches, 1L << 20));
    r.note = std::to_string(decoder->bytes() / 1000000) + " MB a token; of reads of as many bytes " +
             std::to_string(std::lround(share_of(token, decoder->bytes(), decoder->bytes()))) + " %";
    show(r);
    shares.push_back(std::move(r));
  }
  if (cores.size() > 1) {
    pin(cores);
    for (const variant& v : variants) {
      if (quick) continue;
      const auto decoder = decode::make_decoder(v.of, 2);
      all.add(rate_of(v, [&decoder] { decoder->token(); }, 2));
    }
  }
  for (row& r : shares) all.add(std::move(r));
  all.write(a.out);
}
