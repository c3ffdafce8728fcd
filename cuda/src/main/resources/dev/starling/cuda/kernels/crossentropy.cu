// Cross-entropy of rows. Macros: TI, the type of targets; the macros of rows.cuh.

#include "rows.cuh"

// What ignores no class: Losses.NONE_IGNORED.
constexpr i64 NONE_IGNORED = -0x7fffffffffffffffLL - 1;

// The class of a row; -1 if the row is ignored, or if its class is out of range, which is reported.
DEVICE i32 target_of(const TI* target, u32 row, u32 rows, u32 size, i64 ignored, Fault fault) {
    i64 wanted = row < rows ? (i64) *target : ignored;
    if ((wanted != ignored || row < rows && ignored == NONE_IGNORED) && (wanted < 0 || wanted >= size)) {
        if (LANE == 0) {
            report(fault, wanted, row);
        }
        return -1;
    }
    return wanted == ignored ? -1 : (i32) wanted;
}

// Stores for each row the loss, its maximum logit, and the logarithm of Σ exp(logit - maximum).
extern "C" __global__ void __launch_bounds__(BLOCK) loss(C* __restrict__ losses, C* __restrict__ kept, const TX* logits,
        const TI* target, i64 step_target, u32 rows, u32 size, f64 even_, f64 sharp_, i64 ignored, Fault fault) {
    u32 line = ROW;
    u32 n = line < rows ? size : 0;
    const TX* x = logits + (i64) (line < rows ? line : 0) * size;
    i32 wanted = target_of(target + (line < rows ? line * step_target : 0), line, rows, size, ignored, fault);
    C even = (C) even_, sharp = (C) sharp_;
    Row row(x, 1, n);
    Exponentials all = exponentials<false>(row);
    C log_sum = log(all.sum), sum = 0;
    if (even != 0) {
        row.each([&](u32 v, u32 i, auto& x) {
            for (int k = 0; k < x.width; k++) {
                sum -= x.at[k] - all.greatest - log_sum;
            }
        });
        sum = even * row_sum(sum);
    }
    if (line < rows && LANE == 0) {
        if (sharp != 0 && wanted >= 0) {
            sum -= sharp * (widen(x[wanted]) - all.greatest - log_sum);
        }
        losses[line] = wanted < 0 ? C(0) : sum;
        // A row without finite logits has no softmax.
        kept[2 * (i64) line] = log_sum >= 0 ? all.greatest : log_sum - log_sum;
        kept[2 * (i64) line + 1] = log_sum >= 0 ? log_sum : log_sum - log_sum;
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK) gradient(TX* __restrict__ dx, const C* g, i64 step_g,
        const TX* logits, const C* kept, const TI* target, i64 step_target, u32 rows, u32 size, f64 even_, f64 sharp_,
        i64 ignored, Fault fault) {
    u32 line = ROW;
    if (line >= rows) {
        return;
    }
    i32 wanted = target_of(target + line * step_target, line, rows, size, ignored, fault);
    C even = (C) even_, sharp = (C) sharp_, scale = g[line * step_g];
    C greatest = kept[2 * (i64) line], log_sum = kept[2 * (i64) line + 1];
    Row row(logits + (i64) line * size, 1, size);
    TX* to = dx + (i64) line * size;
    row.each([&](u32 v, u32 i, auto& x) {
        for (int k = 0; k < x.width; k++) {
            C share = i + k == (u32) wanted ? even + sharp : even;
            x.at[k] = wanted < 0 ? C(0) : (power_of_e(x.at[k] - greatest - log_sum) - share) * scale;
        }
        write_values(to, 1, i, x);
    });
}
