/* The version of these headers, for C and C++. The version of the library is tilewise_version(), in
 * C++ tilewise::version(). */
#ifndef TILEWISE_VERSION_H
#define TILEWISE_VERSION_H

#define TILEWISE_VERSION_MAJOR 0
#define TILEWISE_VERSION_MINOR 1
#define TILEWISE_VERSION_PATCH 0
/* Major, minor and patch as MMmmpp: 0.1.0 is 100, 1.2.3 is 10203. */
#define TILEWISE_VERSION_NUMBER \
  (TILEWISE_VERSION_MAJOR * 10000 + TILEWISE_VERSION_MINOR * 100 + TILEWISE_VERSION_PATCH)
#define TILEWISE_VERSION_TEXT "0.1.0"

#endif
