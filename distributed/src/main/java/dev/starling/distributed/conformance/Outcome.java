package dev.starling.distributed.conformance;

import dev.starling.distributed.Member;
import dev.starling.distributed.View;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/** What happened to a process before or after a restart; {@code failure} is {@code null} if it finished. */
final class Outcome {
    /** Name of the process, followed by {@link Schedule#RESTARTED} if it was restarted. */
    final String name;
    final Map<Long, float[]> weightsByStep = new TreeMap<>();
    /** As {@link #weightsByStep}, by epoch of the group and step. */
    final Map<List<Long>, float[]> weightsByEpochAndStep = new HashMap<>();
    /** By epoch of the group, its members, and when this process ended steps in it. */
    final Map<Long, List<String>> membersByEpoch = new TreeMap<>();
    final Map<Long, List<Long>> stepTimesByEpoch = new TreeMap<>();
    /** When its first step was done. */
    long firstStepNs = Long.MAX_VALUE;
    /** {@code null} if the process has not failed. */
    @Nullable RuntimeException failure;
    /** The group's view at the time of the failure. */
    View view = new View(0, List.of());
    boolean joined;
    /** Whether its ranks shared batches when training started. */
    boolean synchronous;
    /** Whether training started. */
    boolean started;
    /** Whether it finished its run. */
    boolean ended;
    boolean crashed;
    /** When the failure was thrown, and when the process ended, in nanoseconds of virtual time. */
    long failedNs;
    long endedNs = Long.MAX_VALUE;

    Outcome(String name) {
        this.name = name;
    }

    /** Returns whether the process was restarted after a crash. */
    boolean isRestarted() {
        return name.endsWith(Schedule.RESTARTED);
    }

    /** Returns the name of the process without the suffix of a restart. */
    String process() {
        return isRestarted() ? name.substring(0, name.length() - Schedule.RESTARTED.length()) : name;
    }

    /** Returns whether the process had crashed or failed by a time. */
    boolean isLostBy(long nowNs) {
        return !ended && endedNs <= nowNs;
    }

    void stepEnded(View members, long step, float[] weights, long nowNs) {
        weightsByEpochAndStep.put(List.of(members.epoch(), step), weights);
        membersByEpoch.put(members.epoch(), members.members().stream().map(Member::host).toList());
        stepTimesByEpoch.computeIfAbsent(members.epoch(), _ -> new ArrayList<>()).add(nowNs);
    }

    void failed(RuntimeException e, long nowNs, View members) {
        if (failure == null) {
            failure = e;
            failedNs = nowNs;
            view = members;
        }
    }
}
