// WAV files: a RIFF header, then chunks, each with a four-character name and a size.
module lamina:audio.wav.impl;
import :core;
import :audio;
import :io;
import :io.file.impl;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

/// Random-access bytes of a file or of memory.
struct byte_source {
  std::string_view name;
  std::uint64_t size = 0;
  std::function<void(std::uint64_t at, void* to, std::size_t bytes)> read;
};

template <class... T> [[noreturn]] void wrong(const byte_source& from, const T&... parts) {
  text t;
  (t << ... << parts);
  detail::file_failure(from.name, t);
}

using detail::little_endian;

constexpr std::size_t largest_fmt = 40;  // bytes of the fmt chunk that are read
constexpr std::uint32_t coded_pcm = 1, coded_float = 3, coded_extensible = 0xFFFE;
// Subformat GUID of WAVE_FORMAT_EXTENSIBLE after its first two bytes, which are one of the codes above.
constexpr unsigned char subformat_rest[] = {0, 0, 0, 0, 16, 0, 128, 0, 0, 170, 0, 56, 155, 113};

struct wav_header {
  wav_info info;
  std::uint64_t data = 0;  // offset of the samples
  std::size_t sample = 0;  // bytes per sample
};

// Reads the chunk `fmt `.
void read_format(const byte_source& from, std::uint64_t at, std::uint32_t size, wav_header& h) {
  unsigned char b[largest_fmt] = {};
  if (size < 16) wrong(from, "fmt: expected at least 16 bytes; got ", size);
  from.read(at, b, std::min<std::size_t>(size, largest_fmt));
  std::uint32_t coding = little_endian(b, 2);
  const std::uint32_t channels = little_endian(b + 2, 2), rate = little_endian(b + 4, 4),
                      align = little_endian(b + 12, 2), bits = little_endian(b + 14, 2);
  if (coding == coded_extensible) {
    if (size < 40 || little_endian(b + 16, 2) < 22)
      wrong(from, "fmt: expected at least 40 bytes for an extensible format, 22 in its extension; got ", size, " and ",
            size < 18 ? 0 : little_endian(b + 16, 2));
    if (little_endian(b + 18, 2) > bits)
      wrong(from, "fmt: expected at most ", bits, " valid bits per sample; got ", little_endian(b + 18, 2));
    coding = little_endian(b + 24, 2);
    if (std::memcmp(b + 26, subformat_rest, sizeof subformat_rest) != 0) coding = coded_extensible;
  }
  if (channels == 0) wrong(from, "fmt: expected at least one channel; got none");
  if (rate == 0) wrong(from, "fmt: expected a rate of at least 1; got 0");
  const bool integer = coding == coded_pcm && (bits == 8 || bits == 16 || bits == 24 || bits == 32),
             real = coding == coded_float && (bits == 32 || bits == 64);
  if (!integer && !real) {
    text t;
    t << from.name << ": fmt: coding " << coding << " of " << bits
      << " bits is not supported; expected PCM of 8, 16, 24 or 32 bits, or floats of 32 or 64 bits";
    detail::raise(error_kind::unsupported, t);
  }
  if (align != channels * (bits / 8))
    wrong(from, "fmt: expected frames of ", channels * (bits / 8), " bytes for ", channels, " channels of ", bits,
          " bits; got ", align);
  // Clamped to the range of the field.
  const std::uint64_t rate_of_bytes = std::min<std::uint64_t>(std::uint64_t(rate) * align, 0xFFFFFFFF);
  if (little_endian(b + 8, 4) != rate_of_bytes)
    wrong(from, "fmt: expected ", rate_of_bytes, " bytes a second for a rate of ", rate, " and frames of ", align,
          " bytes; got ", little_endian(b + 8, 4));
  h.info.rate = rate;
  h.info.channels = channels;
  h.sample = bits / 8;
  h.info.format = real         ? bits == 32 ? wav_format::float32 : wav_format::float64
                  : bits == 8  ? wav_format::pcm8
                  : bits == 16 ? wav_format::pcm16
                  : bits == 24 ? wav_format::pcm24
                               : wav_format::pcm32;
}

// Whether bytes may be the name of a chunk; audio data rarely qualifies.
bool is_name(std::string_view id) {
  return std::all_of(id.begin(), id.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// Chunks and tags may follow the RIFF data; any other bytes are reported as samples that the header does not count.
void check_rest(const byte_source& from, std::uint64_t end) {
  const auto is_tag = [&](std::uint64_t at) {
    char id[4] = {};
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(from.size - at, 4));
    from.read(at, id, n);
    return std::all_of(id, id + std::min<std::size_t>(n, 3), [](char c) {  // "ID3" is followed by its version
      return c == ' ' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    });
  };
  if (from.size <= end || is_tag(end)) return;
  if (end % 2 == 1 && (from.size == end + 1 || is_tag(end + 1))) return;  // the padding byte
  wrong(from, "RIFF: expected a chunk or the end of the file after its size of ", end - 8, "; got ", from.size - end,
        " other bytes (samples that the header does not count?)");
}

wav_header read_header(const byte_source& from) {
  unsigned char b[12];
  if (from.size < 12) wrong(from, "RIFF: expected at least 12 bytes; got ", from.size);
  from.read(0, b, 12);
  if (std::memcmp(b, "RIFF", 4) != 0 || std::memcmp(b + 8, "WAVE", 4) != 0)
    wrong(from, "RIFF: expected RIFF and WAVE at the beginning (not a WAV file?)");
  const std::uint64_t end = 8 + std::uint64_t(little_endian(b + 4, 4));
  if (end < 12 || end > from.size) wrong(from, "RIFF: expected a size of 4 to ", from.size - 8, "; got ", end - 8);
  wav_header h;
  bool format = false, data = false;
  std::uint64_t data_bytes = 0;
  for (std::uint64_t at = 12; at < end;) {
    const bool has_header = end - at >= 8;
    if (has_header) from.read(at, b, 8);
    const std::uint32_t size = little_endian(b + 4, 4);
    const std::string_view id(reinterpret_cast<const char*>(b), 4);
    if (data && !(has_header && is_name(id)))
      wrong(from, "data: expected a chunk at byte ", at, ", after its size of ", data_bytes, "; got other bytes");
    if (!has_header) wrong(from, "the chunk at byte ", at, ": expected 8 bytes of name and size; got ", end - at);
    if (!is_name(id)) wrong(from, "the chunk at byte ", at, " has the invalid name `", printable(id), "`");
    if (size > end - at - 8)
      wrong(from, "the chunk `", printable(id), "` at byte ", at, ": expected at most ", end - at - 8,
            " bytes before the end of the RIFF data; got ", size);
    if (id == "fmt ") {
      if (std::exchange(format, true)) wrong(from, "fmt: appears twice");
      read_format(from, at + 8, size, h);
    } else if (id == "data") {
      if (std::exchange(data, true)) wrong(from, "data: appears twice");
      h.data = at + 8;
      data_bytes = size;
    }
    at += 8 + std::uint64_t(size) + size % 2;  // the last chunk may lack the padding byte
  }
  check_rest(from, end);
  if (!format) wrong(from, "fmt: it is missing");
  if (!data) wrong(from, "data: it is missing");
  const std::uint64_t frame = h.sample * static_cast<std::uint64_t>(h.info.channels);
  if (data_bytes % frame != 0)
    wrong(from, "data: expected a multiple of ", frame, " bytes, the size of a frame; got ", data_bytes);
  h.info.frames = static_cast<std::int64_t>(data_bytes / frame);
  return h;
}

float sample_of(const unsigned char* b, wav_format format) {
  switch (format) {
    case wav_format::pcm8: return static_cast<float>(b[0] - 128) * 0x1p-7f;
    case wav_format::pcm16: return static_cast<float>(static_cast<std::int16_t>(little_endian(b, 2))) * 0x1p-15f;
    case wav_format::pcm24: return static_cast<float>(static_cast<std::int32_t>(little_endian(b, 3) << 8)) * 0x1p-31f;
    case wav_format::pcm32: return static_cast<float>(static_cast<std::int32_t>(little_endian(b, 4))) * 0x1p-31f;
    case wav_format::float32: return std::bit_cast<float>(little_endian(b, 4));
    case wav_format::float64: break;
  }
  return static_cast<float>(std::bit_cast<double>(std::uint64_t(little_endian(b + 4, 4)) << 32 | little_endian(b, 4)));
}

waveform read_samples(const byte_source& from, frame_range range) {
  const wav_header h = read_header(from);
  const std::int64_t count = range.count < 0 ? h.info.frames - range.first : range.count;
  if (range.first < 0 || range.first > h.info.frames || count > h.info.frames - range.first) {
    text t;
    t << from.name << ": frames " << range.first << " to " << range.first + count << " are requested, but there are "
      << h.info.frames;
    detail::raise(error_kind::value, t);
  }
  waveform w;
  w.rate = h.info.rate;
  w.samples = matrix<float>::uninitialized({h.info.channels, count});
  float* const out = w.samples.writable().data();
  const auto channels = static_cast<std::size_t>(h.info.channels), frame = channels * h.sample,
             frames = static_cast<std::size_t>(count),
             at_once = std::max<std::size_t>(1, (std::size_t(1) << 16) / frame);
  std::vector<unsigned char> bytes(std::min(at_once, frames) * frame);
  for (std::size_t i = 0; i < frames; i += at_once) {
    const std::size_t n = std::min(at_once, frames - i);
    from.read(h.data + (static_cast<std::size_t>(range.first) + i) * frame, bytes.data(), n * frame);
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t k = 0; k < n; ++k)
        out[c * frames + i + k] = sample_of(bytes.data() + k * frame + c * h.sample, h.info.format);
  }
  return w;
}

template <class F> auto with_file(const std::string& path, const F& f) {
  std::int64_t size = 0;
  const detail::descriptor file(detail::open_for_reading(path, size));
  return f(byte_source{path, static_cast<std::uint64_t>(size), [&](std::uint64_t at, void* to, std::size_t bytes) {
                         detail::read_at(file.number, path, static_cast<std::int64_t>(at), to, bytes);
                       }});
}

// ---- writing --------------------------------------------------------------------------------------------------------

constexpr std::size_t bytes_of(wav_format f) {
  constexpr std::size_t bytes[] = {1, 2, 3, 4, 4, 8};
  return bytes[static_cast<std::size_t>(f)];
}
void append(std::string& to, std::uint64_t v, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) to.push_back(static_cast<char>(v >> (8 * i) & 255));
}
void append_sample(std::string& to, float x, wav_format format) {
  if (format == wav_format::float32) return append(to, std::bit_cast<std::uint32_t>(x), 4);
  if (format == wav_format::float64) return append(to, std::bit_cast<std::uint64_t>(static_cast<double>(x)), 8);
  const std::size_t bytes = bytes_of(format);
  const double scale = std::ldexp(1., static_cast<int>(8 * bytes) - 1);
  const auto v =
      static_cast<std::int64_t>(std::clamp(std::nearbyint(static_cast<double>(x) * scale), -scale, scale - 1));
  append(to, static_cast<std::uint64_t>(bytes == 1 ? v + 128 : v), bytes);
}

}  // namespace

waveform read_wav(const std::string& path, frame_range range) {
  return with_file(path, [&](const byte_source& from) { return read_samples(from, range); });
}
waveform decode_wav(view<const std::byte> bytes, std::string_view name, frame_range range) {
  return read_samples(
      {name, bytes.size(), [&](std::uint64_t at, void* to, std::size_t n) { std::memcpy(to, bytes.data() + at, n); }},
      range);
}
wav_info inspect_wav(const std::string& path) {
  return with_file(path, [](const byte_source& from) { return read_header(from).info; });
}

void write_wav(const std::string& path, const waveform& w, wav_format format) {
  const auto refuse = [&](const text& what) {
    text t;
    detail::raise(error_kind::value, t << path << ": " << what);
  };
  const std::size_t sample = bytes_of(format);
  const std::int64_t channels = w.channels(), frames = w.frames(), frame = channels * static_cast<std::int64_t>(sample);
  if (channels < 1 || channels > 65535 / static_cast<std::int64_t>(sample))
    refuse(text() << channels << " channels; expected 1 to " << 65535 / sample);
  if (w.rate < 1 || w.rate > (std::int64_t(1) << 32) - 1)
    refuse(text() << "a rate of " << w.rate << "; expected 1 to 2^32 - 1");
  if (frames > ((std::int64_t(1) << 32) - 64) / frame)
    refuse(text() << "a WAV file has less than 4 GiB; got " << frames << " frames of " << frame << " bytes");
  const view<const float> samples = w.samples.data();
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (!std::isfinite(samples[i])) refuse(text() << "sample " << i << " is not finite");
  const bool real = format == wav_format::float32 || format == wav_format::float64;
  const auto data = static_cast<std::uint64_t>(frames * frame);
  const std::uint64_t chunks =
      4 + (real ? 26 + 12 : 24) + 8;  // the name WAVE, fmt and fact, and the header of the data chunk
  std::string head = "RIFF";
  append(head, chunks + data + data % 2, 4);
  head += "WAVEfmt ";
  append(head, real ? 18 : 16, 4);
  append(head, real ? coded_float : coded_pcm, 2);
  append(head, static_cast<std::uint64_t>(channels), 2);
  append(head, static_cast<std::uint64_t>(w.rate), 4);
  append(head, std::min<std::uint64_t>(static_cast<std::uint64_t>(w.rate * frame), 0xFFFFFFFF), 4);
  append(head, static_cast<std::uint64_t>(frame), 2);
  append(head, 8 * sample, 2);
  if (real) {
    append(head, 0, 2);  // no extension; then the frame count in a fact chunk, required unless PCM
    head += "fact";
    append(head, 4, 4);
    append(head, static_cast<std::uint64_t>(frames), 4);
  }
  head += "data";
  append(head, data, 4);
  write_file_atomically(path, [&](writer& to) {
    std::string bytes = head;
    for (std::int64_t i = 0; i < frames; ++i) {
      for (std::int64_t c = 0; c < channels; ++c)
        append_sample(bytes, samples[static_cast<std::size_t>(c * frames + i)], format);
      if (bytes.size() < std::size_t(1) << 16) continue;
      to.write(bytes);
      bytes.clear();
    }
    if (data % 2) bytes.push_back('\0');
    to.write(bytes);
  });
}

}  // namespace lamina
