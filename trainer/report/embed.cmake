# Writes files into a C++ source as string views.
#   cmake -D output=FILE -D files=A;B -D names=a,b -P embed.cmake
string(REPLACE "," ";" names "${names}")
set(text "#include \"trainer/report/report_assets.h\"\n\nnamespace normball::trainer::report::assets {\n")
foreach(file name IN ZIP_LISTS files names)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND text "static const unsigned char ${name}_bytes[] = {${bytes}0};\n"
         "std::string_view ${name}() {\n"
         "  return {reinterpret_cast<const char*>(${name}_bytes), sizeof ${name}_bytes - 1};\n}\n")
endforeach()
file(WRITE ${output} "${text}}  // namespace normball::trainer::report::assets\n")
