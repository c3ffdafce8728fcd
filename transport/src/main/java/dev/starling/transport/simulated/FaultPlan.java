package dev.starling.transport.simulated;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * The faults of a simulation and their times. Its text lists all of them and shows the call that creates the plan
 * again.
 *
 * @param seed of the simulation's choices
 * @param ranks names of the processes
 * @param horizon time within which all faults begin and, other than crashes, end
 * @param kinds of faults
 * @param conditions of the network
 * @param faults in the order of their times
 */
public record FaultPlan(long seed, List<String> ranks, Duration horizon, Set<Kind> kinds, Conditions conditions,
        List<Fault> faults) {
    /** Copies the collections. */
    public FaultPlan {
        ranks = List.copyOf(ranks);
        kinds = Set.copyOf(kinds);
        faults = List.copyOf(faults);
    }

    /** Kinds of faults in a random plan. */
    public enum Kind {
        /** Loss, delay and jitter. */
        WEATHER,
        /** Copied and corrupted messages. */
        DISTURBANCE,
        /** {@link Fault.Cut}. */
        CUT,
        /** {@link Fault.Pause}. */
        PAUSE,
        /** {@link Fault.Break}. */
        BREAK,
        /** {@link Fault.Crash}; at least one process survives. */
        CRASH
    }

    /** Returns a plan without faults. */
    public static FaultPlan none(long seed, List<String> ranks) {
        return new FaultPlan(seed, ranks, Duration.ZERO, Set.of(), Conditions.GOOD, List.of());
    }

    /** Returns a random plan with all kinds of faults. */
    public static FaultPlan random(long seed, List<String> ranks, Duration horizon) {
        return random(seed, ranks, horizon, EnumSet.allOf(Kind.class));
    }

    /** Returns a random plan with some kinds of faults; always the same for the same arguments. */
    public static FaultPlan random(long seed, List<String> ranks, Duration horizon, Set<Kind> kinds) {
        return new Drawing(new SplittableRandom(seed), ranks, horizon.toNanos()).plan(seed, horizon, kinds);
    }

    @Override
    public String toString() {
        return "FaultPlan.random(" + seed + "L, " + ranks + ", " + horizon + ", " + new TreeSet<>(kinds) + ") = "
                + conditions + faults.stream().map(f -> "\n  " + f).collect(Collectors.joining());
    }

    /** Draws a plan: from few faults to many, from short ones to long ones. */
    private record Drawing(SplittableRandom random, List<String> ranks, long horizon) {
        private static final int MAX_OF_A_KIND = 3;
        private static final int MAX_OPERATIONS = 200;

        FaultPlan plan(long seed, Duration length, Set<Kind> kinds) {
            Conditions conditions = conditions(kinds);
            List<Fault> faults = new ArrayList<>();
            boolean several = ranks.size() > 1;
            if (several && kinds.contains(Kind.CUT)) {
                times(MAX_OF_A_KIND, () -> faults.add(cut()));
            }
            if (kinds.contains(Kind.PAUSE)) {
                times(MAX_OF_A_KIND, () -> faults.add(pause()));
            }
            if (several && kinds.contains(Kind.BREAK)) {
                times(2, () -> faults.add(link()));
            }
            if (kinds.contains(Kind.CRASH)) {
                List<String> mortal = new ArrayList<>(ranks);
                times(ranks.size() - 1, () -> faults.add(new Fault.Crash(time(), random.nextInt(MAX_OPERATIONS),
                        mortal.remove(random.nextInt(mortal.size())))));
            }
            faults.sort(Comparator.comparing(Fault::at));
            return new FaultPlan(seed, ranks, length, kinds, conditions, faults);
        }

        private Conditions conditions(Set<Kind> kinds) {
            Conditions made = Conditions.GOOD;
            if (kinds.contains(Kind.WEATHER)) {
                made = made.delay(logarithmic(5_000, 2_000_000), logarithmic(1_000, 5_000_000))
                        .loss(random.nextInt(3) == 0 ? random.nextDouble(0.1) : 0)
                        .backPressure(random.nextInt(3) == 0 ? random.nextDouble(0.3) : 0)
                        .room(2_000_000_000L >> random.nextInt(5), 1 << random.nextInt(17, 22));
            }
            return kinds.contains(Kind.DISTURBANCE)
                    ? made.disturbed(random.nextDouble(0.05), random.nextDouble(0.05)) : made;
        }

        private void times(int max, Runnable draw) {
            for (int i = random.nextInt(max + 1); i > 0; i--) {
                draw.run();
            }
        }

        private Fault cut() {
            Set<String> side = new TreeSet<>();
            while (side.isEmpty() || side.size() == ranks.size()) {
                side.clear();
                ranks.stream().filter(r -> random.nextBoolean()).forEach(side::add);
            }
            Set<String> rest = new TreeSet<>(ranks);
            rest.removeAll(side);
            Duration at = time();
            return new Fault.Cut(at, within(at), side, rest, random.nextInt(4) != 0);
        }

        private Fault pause() {
            Duration at = time();
            return new Fault.Pause(at, within(at), ranks.get(random.nextInt(ranks.size())));
        }

        private Fault link() {
            int first = random.nextInt(ranks.size());
            int second = (first + 1 + random.nextInt(ranks.size() - 1)) % ranks.size();
            return new Fault.Break(time(), ranks.get(first), ranks.get(second));
        }

        private Duration time() {
            return Duration.ofNanos(random.nextLong(horizon));
        }

        private Duration within(Duration begin) {
            return logarithmic(Math.min(horizon / 1000, horizon - begin.toNanos()), horizon - begin.toNanos());
        }

        private Duration logarithmic(long min, long max) {
            double low = StrictMath.log(Math.max(1, min));
            double high = StrictMath.log(Math.max(1, max));
            return Duration.ofNanos(Math.round(StrictMath.exp(low + random.nextDouble() * (high - low))));
        }
    }
}
