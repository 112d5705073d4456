/* utf8.h: decoding, checking and lossy repair of UTF-8. */
#ifndef CADRE_BASE_UTF8_H
#define CADRE_BASE_UTF8_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_BAD 0xFFFFFFFFu
/* Decodes one code point at p < end; *len is its bytes. Ill-formed: returns UTF8_BAD and *len is the maximal subpart
 * (1..3), the number of bytes one U+FFFD stands for. */
uint32_t utf8_decode(const unsigned char *p, const unsigned char *end, int *len);
int utf8_encode(uint32_t cp, char out[4]); /* bytes written; surrogates and > U+10FFFF write U+FFFD */
bool utf8_valid(const char *text, size_t len);
/* Bytes at the end of text that begin a character but do not end it (0..3): hold them back when streaming. */
size_t utf8_partial(const char *text, size_t len);
/* text with ill-formed parts replaced by U+FFFD, into mem_new memory (terminated); NULL when out of memory. */
char *utf8_repair(const char *text, size_t len, size_t *out_len);
#endif
