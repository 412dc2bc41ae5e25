# cmake -D FOLDERS=<folders> -P terms.cmake
#
# Fails if code or a document uses another word for a term of the field, or British spelling.
set(terms
  "anew=again" "rightly=correctly" "worded=diagnostic" "misfits?=mismatch" "letters_apart=edit_distance"
  "list_for=suggest_names" "strands?=register chain" "weaver?=compile_chain" "haste=latency" "hurried=low latency"
  "free_order=relaxed_summation" "side_by_side=parallel" "said_together=merge_policies" "all_said=merge_all"
  "nothing_said=without_policies" "net_book=symbol table" "catalogues?=registry" "workshop=temporary directory"
  "settled_program=precomputed_program" "steered=with policies" "first_rows=truncate" "unslice=slice_grad"
  "unpart=split_grad" "unpick=pick_grad" "unrepeat=repeat_grad" "untile=tile_grad" "each turn=each iteration"
  "is to be=must be" "are to be=must be"
  "every turn=every iteration" "most_[a-z_]+=max_..." "[abxyw]_offset=zero_point"
  "normalis[a-z]+=normalize" "optimis[a-z]+=optimize" "initialis[a-z]+=initialize"
  "specialis[a-z]+=specialize" "behaviours?=behavior" "colours?=color" "neighbours?=neighbor")
set(words "")
foreach(term IN LISTS terms)
  string(REGEX REPLACE "=.*" "" word "${term}")
  list(APPEND words "${word}")
endforeach()
list(JOIN words "|" words)

set(count 0)
set(complaints "")
foreach(folder IN LISTS FOLDERS)
  file(GLOB_RECURSE sources ${folder}/*.cpp ${folder}/*.cppm ${folder}/*.h ${folder}/*.md ${folder}/*.py
    ${folder}/CMakeLists.txt)
  list(FILTER sources EXCLUDE REGEX "/bench/report/|/tests/model/torch/")
  foreach(source IN LISTS sources)
    math(EXPR count "${count} + 1")
    file(STRINGS ${source} lines REGEX "(^|[^A-Za-z_])(${words})([^A-Za-z_]|$)")
    foreach(line IN LISTS lines)
      foreach(term IN LISTS terms)
        string(REGEX MATCH "^(.*)=(.*)$" found "${term}")
        set(instead "${CMAKE_MATCH_2}")
        if(line MATCHES "(^|[^A-Za-z_])(${CMAKE_MATCH_1})([^A-Za-z_]|$)")
          string(APPEND complaints "\n  ${source}: \"${CMAKE_MATCH_2}\": write \"${instead}\"")
        endif()
      endforeach()
    endforeach()
  endforeach()
endforeach()
if(count EQUAL 0)
  message(FATAL_ERROR "no files found in ${FOLDERS}")
elseif(complaints)
  message("${complaints}")  # before the message: FATAL_ERROR would wrap the lines
  message(FATAL_ERROR "words that a reader has to learn here")
endif()
