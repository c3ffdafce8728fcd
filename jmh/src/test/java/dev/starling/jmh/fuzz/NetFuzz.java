package dev.starling.jmh.fuzz;

import dev.starling.jmh.pytorch.Torch;
import java.util.Arrays;
import java.util.Map;

/**
 * Trains random networks eagerly, again, captured, resumed from a checkpoint and with two threads, and compares the
 * results bit by bit, and each step with libtorch. Prints the failing seeds, each with the smallest network that fails.
 *
 * <pre>{@code
 * NetFuzz 0 10000        // seeds 0 to 9,999
 * NetFuzz 4711 1         // one seed, with its source
 * }</pre>
 */
final class NetFuzz {
    /** A seed that crashes its process immediately. */
    static final long CRASH = 1L << 40;

    private static final int MAX_TRIALS = 200;

    private NetFuzz() { }

    public static void main(String[] args) {
        long from = Long.parseLong(args[0]);
        long count = Long.parseLong(args[1]);
        Torch.threads(1);
        int findings = 0;
        for (long seed = from; seed < from + count; seed++) {
            System.out.println("seed " + seed);
            System.out.flush();
            if (seed == CRASH) {
                Runtime.getRuntime().halt(134);
            }
            NetCase drawn = NetCase.draw(seed);
            String wrong = wrong(drawn);
            if (wrong != null) {
                findings++;
                System.out.println("finding " + report(drawn, wrong).replace("\n", "\n  "));
            } else if (count == 1) {
                System.out.println(drawn.snippet());
            }
        }
        System.out.println("done " + count + " networks, " + findings + " findings");
    }

    private static String report(NetCase drawn, String wrong) {
        NetCase smallest = drawn;
        String reason = wrong;
        int trials = 0;
        boolean shrinks = true;
        while (shrinks && trials < MAX_TRIALS) {
            shrinks = false;
            for (NetCase smaller : smallest.smaller()) {
                String still = trials++ < MAX_TRIALS ? wrong(smaller) : null;
                if (still != null && kind(still).equals(kind(wrong))) {
                    smallest = smaller;
                    reason = still;
                    shrinks = true;
                    break;
                }
            }
        }
        return "seed " + drawn.seed() + ": " + wrong + "\nsmallest: " + reason + "\n" + smallest.snippet();
    }

    private static String kind(String wrong) {
        return wrong.substring(0, wrong.indexOf(':'));
    }

    /** Describes what is wrong with a case, beginning with a kind and a colon, or returns {@code null}. */
    static String wrong(NetCase of) {
        try {
            NetRun eager = NetRun.of(of, false, 1, -1);
            String wrong = difference("repeated", eager, NetRun.of(of, false, 1, -1), NetCase.STEPS);
            wrong = wrong != null ? wrong : difference("captured", eager, NetRun.of(of, true, 1, -1), NetCase.STEPS);
            wrong = wrong != null ? wrong : difference("resumed", eager,
                    NetRun.of(of, of.seed() % 2 == 0, 1, 1 + (int) (of.seed() % 4)), NetCase.STEPS);
            wrong = wrong != null ? wrong : difference("two threads captured", NetRun.of(of, false, 2, -1),
                    NetRun.of(of, true, 2, -1), NetCase.STEPS);
            if (wrong != null || of.drops()) {
                return wrong;
            }
            try (TorchOracle oracle = new TorchOracle(of)) {
                for (int i = 0; i < eager.steps.size(); i++) {
                    wrong = oracle.check(eager.steps.get(i));
                    if (wrong != null) {
                        return wrong + " (step " + i + ")";
                    }
                }
                if (eager.refused != null && oracle.isFinite(eager.refused)) {
                    return "refusal: libtorch's loss and gradients are finite, but " + eager.refusal;
                }
            }
            try (TorchOracle oracle = new TorchOracle(of)) {
                NetRun two = NetRun.of(of, false, 2, -1);
                wrong = two.steps.isEmpty() ? null : oracle.check(two.steps.getFirst());
                return wrong == null ? null : "two threads " + wrong;
            }
        } catch (RuntimeException | Error e) {
            return "exception " + e.getClass().getSimpleName() + ": " + e.getMessage() + " at "
                    + Arrays.stream(e.getStackTrace()).limit(6).toList();
        }
    }

    private static String difference(String what, NetRun a, NetRun b, int steps) {
        if (a.steps.size() != b.steps.size() || (a.refusal == null) != (b.refusal == null)) {
            return what + ": one run is refused, the other is not: " + a.refusal + ", " + b.refusal;
        }
        for (int i = 0; i < Math.min(steps, a.steps.size()); i++) {
            NetRun.Step x = a.steps.get(i);
            NetRun.Step y = b.steps.get(i);
            if (Double.doubleToRawLongBits(x.loss()) != Double.doubleToRawLongBits(y.loss())) {
                return what + ": the loss of step " + i + " is " + x.loss() + " and " + y.loss();
            }
            String path = differs(x.gradients(), y.gradients());
            if (path != null) {
                return what + ": the gradient of " + path + " differs in step " + i;
            }
            path = differs(x.after(), y.after());
            if (path != null) {
                return what + ": " + path + " differs after step " + i;
            }
        }
        return null;
    }

    private static String differs(Map<String, double[]> a, Map<String, double[]> b) {
        if (!a.keySet().equals(b.keySet())) {
            return a.keySet() + " against " + b.keySet();
        }
        for (Map.Entry<String, double[]> entry : a.entrySet()) {
            if (!Arrays.equals(entry.getValue(), b.get(entry.getKey()))) {
                return entry.getKey();
            }
        }
        return null;
    }
}
