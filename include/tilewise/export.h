/* TILEWISE_API marks what the shared library exports: every function of these headers that is not
 * inline, and Error, whose type information a program needs to catch it. All else is compiled with
 * hidden visibility. A C++ class is not marked as a whole: the functions of its private types would
 * be exported, too. */
#ifndef TILEWISE_EXPORT_H
#define TILEWISE_EXPORT_H

#define TILEWISE_API __attribute__((visibility("default")))

#endif
