// Audio data sets: one folder per class.
export module lamina:audio.folder;
import :core;
import :audio;
import lamina.std;

namespace lamina {

/// A waveform and the index of its class.
export struct labeled_sound {
  waveform sound;
  std::int64_t label = 0;
};
/// Common format to which all sounds of a folder are converted.
struct audio_folder_options {
  std::int64_t rate = 0;    ///< frames per second; 0 keeps each file's rate
  std::int64_t frames = 0;  ///< truncates longer sounds and zero-pads shorter ones; 0 keeps each file's length
  bool mono = true;         ///< averages all channels
};

/// WAV files with class labels, read on access. Copies share the list of files; safe for concurrent reads.
export class audio_dataset {
 public:
  struct listing;
  explicit audio_dataset(std::shared_ptr<const listing> l);
  std::int64_t size() const;
  /// Reads the i-th sound. Errors: value_error for an index outside 0..size() - 1; as `read_wav`.
  labeled_sound operator[](std::int64_t i) const;
  const std::string& file(std::int64_t i) const;
  /// Location of the i-th sound for messages.
  const std::string& location(std::int64_t i) const { return file(i); }
  std::int64_t label(std::int64_t i) const;
  const std::vector<std::string>& class_names() const;

 private:
  void check(std::int64_t i) const;
  std::shared_ptr<const listing> listing_;
};

export namespace datasets {
/// The files `directory/<class>/*.wav`, listed by `list_by_class`. Errors: as `list_by_class`; value_error for negative
/// options.
audio_dataset audio_folder(const std::string& directory, const audio_folder_options& o = {});
}  // namespace datasets

}  // namespace lamina
