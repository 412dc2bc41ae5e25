#!/bin/sh
# Has espeak-ng speak eight words with 36 voices each: speak.sh FOLDER writes FOLDER/<word>/<voice>.wav.
set -e
folder=${1:?"usage: speak.sh FOLDER"}
for word in down go left no right stop up yes; do
  mkdir -p "$folder/$word"
  for voice in en-us en-gb en-us+f2 en-gb+m3; do
    for speed in 140 170 200; do
      for pitch in 30 50 70; do
        espeak-ng -v "$voice" -s "$speed" -p "$pitch" -w "$folder/$word/$voice-$speed-$pitch.wav" "$word"
      done
    done
  done
done
