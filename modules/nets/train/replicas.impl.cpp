module lamina:train.replicas.impl;
import :core;
import :train.replicas;
import lamina.std;

namespace lamina {

namespace {

// Sends bytes as sums in which only one rank has nonzero numbers: 32-bit words, which doubles represent exactly.
void sum_words(replicas& all, bool gives, bool takes, std::byte* bytes, std::size_t count) {
  constexpr std::size_t word = 4, max = std::size_t(1) << 18;
  std::vector<double> numbers;
  for (std::size_t at = 0; at < count; at += max) {
    const std::size_t n = std::min(max, count - at);
    numbers.assign((n + word - 1) / word, 0);
    for (std::size_t i = 0; gives && i < numbers.size(); ++i) {
      std::uint32_t x = 0;
      std::memcpy(&x, bytes + at + i * word, std::min(word, n - i * word));
      numbers[i] = x;
    }
    all.sum(view<double>(numbers));
    for (std::size_t i = 0; takes && i < numbers.size(); ++i) {
      const auto x = static_cast<std::uint32_t>(numbers[i]);
      std::memcpy(bytes + at + i * word, &x, std::min(word, n - i * word));
    }
  }
}

}  // namespace

void replicas::begin_sum_for(int, view<float> numbers) { begin_sum(numbers); }
void replicas::begin_sum_for(int, view<double> numbers) { begin_sum(numbers); }
void replicas::send(int from, int to, void* bytes, std::size_t count) {
  if (from != to) sum_words(*this, rank() == from, rank() == to, static_cast<std::byte*>(bytes), count);
}
void replicas::all_gather(void* bytes, view<const std::size_t> ends) {
  std::size_t begin = 0;
  for (int r = 0; r < count(); ++r) {
    const std::size_t end = ends[static_cast<std::size_t>(r)];
    sum_words(*this, rank() == r, true, static_cast<std::byte*>(bytes) + begin, end - begin);
    begin = end;
  }
}

}  // namespace lamina
