/* shape.h: the shape of one MoE layer as users write it: a name, or "E=128,d=2048,f=768,k=8,act=swiglu". */
#ifndef CMD_SHAPE_H
#define CMD_SHAPE_H
#include "say.h"

typedef struct shape {
    char name[32];       /* "qwen3-30b-a3b", or "custom" */
    cadre_moe_desc desc; /* max_tokens 0 */
} shape;

/* Names for help: "demo|qwen3-30b-a3b|..." */
extern const char shape_names[];
cadre_err shape_read(const char *text, shape *out, cadre_fail *why);
/* Packed bytes of one expert, and of the shared one (0 without). */
double shape_expert_bytes(const cadre_moe_desc *d);
double shape_shared_bytes(const cadre_moe_desc *d);
/* Floating-point operations of the experts for n tokens. */
double shape_flops(const cadre_moe_desc *d, double n);
/* "d=2048 f=768 e=128 k=8 bf16 swiglu softmax" */
const char *shape_text(const cadre_moe_desc *d, char text[128]);
/* `shape` and `desc` of a result; the line for people. */
void shape_put(json_out *o, const shape *s);
void shape_say(const shape *s);
#endif
