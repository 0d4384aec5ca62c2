/* TILEWISE_API marks the exports of the shared library: all functions of these headers that are not
 * inline, and Error, because a program needs its type information to catch it. Everything else is
 * compiled with hidden visibility. A C++ class is not marked as a whole, because that would also
 * export the functions of its private types. */
#ifndef TILEWISE_EXPORT_H
#define TILEWISE_EXPORT_H

#define TILEWISE_API __attribute__((visibility("default")))

#endif
