// Tokenizers: convert text to ids of a vocabulary and back.
export module lamina:tokenizer;
import :core;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {
struct tokenizer_parts;
}

/// Handling of invalid UTF-8: an error, or U+FFFD for each maximal subpart.
export enum class invalid_utf8 { refuse, replace };
/// The side of a text where tokens are truncated or padded.
export enum class text_side { left, right };

/// Which text of a pair is truncated: the longer one until both are equally long, or always the same one.
export enum class cut_rule { longest_first, only_first, only_second };

/// A token that is found in a text before the text is split.
export struct added_token {
  std::string content{};
  std::int64_t id = 0;
  bool single_word = false;             ///< does not match inside a word
  bool lstrip = false, rstrip = false;  ///< absorbs white space on that side
  bool normalized = true;               ///< is matched in the normalized text
  bool special = false;                 ///< is omitted by `decode`
};

/// Options for encoding.
export struct encode_options {
  bool special = true;  ///< adds the special tokens of the post-processor, such as [CLS] and [SEP]
  invalid_utf8 on_invalid = invalid_utf8::refuse;
};
/// Options for encoding a batch. A tokenizer read from a file takes defaults from its fields `truncation` and
/// `padding`.
export struct token_batch_options {
  std::int64_t max_length = 0;  ///< longer texts are truncated, keeping their special tokens; 0 for no limit
  std::int64_t length = 0;      ///< texts are padded to this length; 0 for the longest of the batch
  std::int64_t multiple = 1;    ///< lengths are rounded up to a multiple of it
  std::int64_t pad_id = 0, pad_type = 0;
  text_side pad_side = text_side::right, cut_side = text_side::right;
  cut_rule cut = cut_rule::longest_first;
  bool special = true;
  invalid_utf8 on_invalid = invalid_utf8::refuse;
};

/// An encoded batch, [texts x length].
export struct token_batch {
  matrix<std::int64_t> ids;
  matrix<std::int64_t> mask;   ///< 1 for tokens, 0 for padding
  matrix<std::int64_t> types;  ///< 0 for the first text, 1 for the second of a pair
  std::vector<std::int64_t> lengths;
};

/// A vocabulary with all steps from text to ids and back: normalizer, pre-tokenizer, model, post-processor, decoder.
/// Copies share their tables. Thread-safe.
/// Source: file format and semantics follow Hugging Face's `tokenizers`.
export class tokenizer {
 public:
  explicit tokenizer(std::shared_ptr<const detail::tokenizer_parts> parts);
  tokenizer(const tokenizer&) = default;  // also used for moves, so that no tokenizer lacks its tables
  tokenizer& operator=(const tokenizer&) = default;

  /// The ids of a text.   Errors: value_error for invalid UTF-8, with the first invalid byte.
  template <std::integral T = std::int64_t> requires(sizeof(T) >= 4)
  std::vector<T> encode(std::string_view text, encode_options o = {}) const {
    std::vector<T> ids;
    const std::vector<std::uint32_t> all = encoded(text, nullptr, o);
    ids.reserve(all.size());
    for (const std::uint32_t id : all) ids.push_back(static_cast<T>(id));
    return ids;
  }
  /// The ids of a pair of texts, such as question and answer.
  template <std::integral T = std::int64_t> requires(sizeof(T) >= 4)
  std::vector<T> encode_pair(std::string_view first, std::string_view second, encode_options o = {}) const {
    std::vector<T> ids;
    for (const std::uint32_t id : encoded(first, &second, o)) ids.push_back(static_cast<T>(id));
    return ids;
  }
  /// Encodes texts as one batch; `seconds`, if not empty, contains the second text of each pair.
  /// Errors:  value_error for options that no text can satisfy, or a different number of second texts.
  token_batch encode_batch(view<const std::string> texts, const token_batch_options& o,
                           view<const std::string> seconds = {}) const;
  token_batch encode_batch(view<const std::string> texts) const { return encode_batch(texts, batching()); }
  /// The text for ids. Skips unknown ids and, with `skip_special`, special tokens.
  std::string decode(view<const std::int64_t> ids, bool skip_special = true) const;
  std::string decode(view<const std::int32_t> ids, bool skip_special = true) const;

  /// Number of tokens, including added ones.
  std::int64_t size() const;
  /// The id of a token, or none.
  std::optional<std::int64_t> id_of(std::string_view token) const;
  /// The token of an id, or none.
  std::optional<std::string> token_of(std::int64_t id) const;
  /// Tokens that are matched before a text is split.
  const std::vector<added_token>& added() const;
  /// Default options of `encode_batch`.
  const token_batch_options& batching() const;
  /// The normalized text, and the pieces into which the pre-tokenizer splits it.
  std::string normalize(std::string_view text) const;
  std::vector<std::string> split(std::string_view text) const;

  /// The tokenizer as a JSON document, `tokenizer.json`.
  std::string to_json() const;
  /// Writes `to_json` with `write_file_atomically`.   Errors: file_error.
  void save(const std::string& path) const;

 private:
  std::vector<std::uint32_t> encoded(std::string_view text, const std::string_view* second, encode_options o) const;
  std::shared_ptr<const detail::tokenizer_parts> parts_;
};

/// Reads a `tokenizer.json`.
/// Errors: file_error naming file and field; unsupported_error for a part that lamina does not support.
export tokenizer load_tokenizer(const std::string& path);
/// The same for a document in memory; `name` is the prefix of messages.
export tokenizer read_tokenizer(std::string_view json, std::string_view name = "tokenizer");

/// Byte-level tokenizer: the id of a byte is its value; special tokens have ids from 256 on.
export tokenizer byte_tokenizer(const std::vector<std::string>& special = {});

/// How training splits texts into words.
export enum class word_split {
  byte_level,       ///< the pattern of GPT-2: words with the space before them
  whitespace,       ///< words, and runs of other characters; drops white space
  whitespace_only,  ///< splits at white space
  bert              ///< splits at white space and isolates each punctuation mark
};

/// Options for training a BPE vocabulary.
export struct bpe_options {
  std::int64_t size = 30000;           ///< number of tokens, including special ones and the alphabet
  std::vector<std::string> special{};  ///< special tokens; get the first ids
  std::int64_t min_frequency = 0;      ///< minimum frequency of a merged pair
  word_split split = word_split::byte_level;
  bool prefix_space = false;  ///< byte_level: prepends a space to texts, so that the first word is like the others
  std::string end_of_word{};  ///< suffix of a word's last token, such as `</w>`; not with byte_level
  std::string unknown{};      ///< special token for characters without a token; if empty, they are omitted
  bool lowercase = false;
  std::int64_t max_alphabet = 0;  ///< maximum number of characters with a token, by frequency; 0 for no limit
};
export struct wordpiece_options {
  std::int64_t size = 30000;
  std::vector<std::string> special{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};  ///< must contain `unknown`
  std::int64_t min_frequency = 0;
  std::string unknown = "[UNK]", continuing = "##";
  bool lowercase = true, strip_accents = true;
  std::int64_t max_alphabet = 0;
};
export struct word_options {
  std::int64_t size = 30000;
  std::vector<std::string> special{"[UNK]"};  ///< must contain `unknown`
  std::int64_t min_frequency = 0;
  std::string unknown = "[UNK]";
  word_split split = word_split::whitespace;
  bool lowercase = true;
};

export namespace bpe {
/// Byte-pair encoding: repeatedly merges the most frequent pair of tokens. Ties go to the pair with lower ids.
/// Errors:  value_error for contradictory options, or invalid UTF-8.
/// Source:  Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units" (2016), arXiv:1508.07909.
tokenizer train(view<const std::string> texts, const bpe_options& o = {});
}  // namespace bpe
export namespace wordpiece {
/// Trains tokens like `bpe::train`; tokens that continue a word begin with `continuing`. Encoding is greedy, longest
/// match first. If [CLS] and [SEP] are among the special tokens, they enclose texts.
/// Source:  Devlin, Chang, Lee, Toutanova, "BERT" (2019), arXiv:1810.04805.
tokenizer train(view<const std::string> texts, const wordpiece_options& o = {});
}  // namespace wordpiece
export namespace word_level {
/// Vocabulary of the most frequent words; ties in byte order.
tokenizer train(view<const std::string> texts, const word_options& o = {});
}  // namespace word_level

}  // namespace lamina
