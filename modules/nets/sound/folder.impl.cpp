module lamina:audio.folder.impl;
import :core;
import :audio;
import :audio.folder;
import :data.folder;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

struct audio_dataset::listing {
  audio_folder_options options;
  files_by_class all;
};

namespace {

waveform with_frames(const waveform& w, std::int64_t frames) {
  if (w.frames() == frames) return w;
  waveform made{matrix<float>({w.channels(), frames}), w.rate};
  auto out = made.samples.writable();
  const auto in = w.samples.data();
  const auto from = static_cast<std::size_t>(w.frames()), to = static_cast<std::size_t>(frames), n = std::min(from, to);
  for (std::size_t c = 0; c < static_cast<std::size_t>(w.channels()); ++c)
    std::copy_n(in.data() + c * from, n, out.data() + c * to);
  return made;
}

}  // namespace

audio_dataset::audio_dataset(std::shared_ptr<const listing> l) : listing_(std::move(l)) {}
std::int64_t audio_dataset::size() const { return static_cast<std::int64_t>(listing_->all.files.size()); }
const std::vector<std::string>& audio_dataset::class_names() const { return listing_->all.class_names; }
void audio_dataset::check(std::int64_t i) const {
  if (i >= 0 && i < size()) return;
  text t;
  detail::raise(error_kind::value, t << "audio_dataset: index " << i << " is outside 0.." << size() - 1);
}
const std::string& audio_dataset::file(std::int64_t i) const {
  check(i);
  return listing_->all.files[static_cast<std::size_t>(i)].path;
}
std::int64_t audio_dataset::label(std::int64_t i) const {
  check(i);
  return listing_->all.files[static_cast<std::size_t>(i)].label;
}
labeled_sound audio_dataset::operator[](std::int64_t i) const {
  const audio_folder_options& o = listing_->options;
  waveform w = read_wav(file(i));
  if (o.mono) w = to_mono(w);
  if (o.rate > 0) w = resample(w, o.rate);
  if (o.frames > 0) w = with_frames(w, o.frames);
  return {std::move(w), label(i)};
}

audio_dataset datasets::audio_folder(const std::string& directory, const audio_folder_options& o) {
  if (o.rate < 0 || o.frames < 0) {
    text t;
    detail::raise(error_kind::value,
                  t << "audio_folder: a rate of " << o.rate << " and " << o.frames << " frames; expected 0 or more");
  }
  return audio_dataset(std::make_shared<const audio_dataset::listing>(o, list_by_class(directory, {".wav"})));
}

}  // namespace lamina
