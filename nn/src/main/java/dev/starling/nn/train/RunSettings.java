package dev.starling.nn.train;

import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.nn.optim.Optimizer;
import java.lang.reflect.RecordComponent;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.regex.Pattern;

/**
 * The settings that must be equal on all ranks of a run, as texts by name: model, optimiser, learning rate, loss, data
 * and its order, and what a strategy adds. What may differ (threads, devices, listeners, each rank's own rows) is not
 * among them. Immutable.
 *
 * @param values the value of each setting, in the order in which they are compared
 */
public record RunSettings(Map<String, String> values) {
    private static final String ABSENT = "absent";
    /** What the default {@code toString} of a function or an object ends in. */
    private static final Pattern IDENTITY = Pattern.compile("(\\$\\$Lambda[^@,;\\])}\\s]*)?@[0-9a-f]+");
    /** Differences, and values of one setting, that a message describes. */
    private static final int MAX_DESCRIBED = 4;
    /** Ranks that a message lists for one value. */
    private static final int MAX_RANKS = 8;
    /** Longest value that a message repeats in full. */
    private static final int MAX_VALUE = 120;
    private static final int CONTEXT = 40;
    private static final long FNV_BASIS = 0xCBF29CE484222325L;
    private static final long FNV_PRIME = 0x100000001B3L;

    /** Copies the values, without the identities of functions and objects, which differ between processes. */
    public RunSettings {
        Map<String, String> copies = new LinkedHashMap<>(values);
        copies.replaceAll((_, value) -> IDENTITY.matcher(value).replaceAll(""));
        values = Collections.unmodifiableMap(copies);
    }

    /** Returns the settings of a model and its optimiser. */
    public static RunSettings of(Module model, Optimizer optimizer) {
        Map<String, String> values = new LinkedHashMap<>();
        describe("model", model, values);
        values.putAll(optimizer.settings());
        optimizer.state().forEach((path, p) -> values.put("optimizer." + path, describe(p)));
        return new RunSettings(values);
    }

    private static void describe(String path, Module layer, Map<String, String> values) {
        values.put(path, name(layer));
        layer.visit(new Module.Visitor() {
            @Override
            public void parameter(String name, Parameter parameter) {
                values.put(path + '.' + name, describe(parameter));
            }

            @Override
            public void layer(String name, Module inner) {
                describe(path + '.' + name, inner, values);
            }
        });
    }

    /** Returns the name of a layer, and its settings if it is a record of numbers. */
    private static String name(Module layer) {
        RecordComponent[] components = layer.getClass().getRecordComponents();
        return components != null && components.length > 0 && Arrays.stream(components).allMatch(each -> each.getType()
                .isPrimitive()) ? layer.toString() : layer.describe();
    }

    private static String describe(Parameter p) {
        return p.master().dtype() + p.shape().toString();
    }

    /** Returns these settings and another one. */
    public RunSettings with(String name, Object value) {
        return with(Map.of(name, value.toString()));
    }

    /** Returns these settings and others. */
    public RunSettings with(Map<String, String> others) {
        Map<String, String> all = new LinkedHashMap<>(values);
        all.putAll(others);
        return new RunSettings(all);
    }

    /** Returns the first settings, of about {@code chars} characters, and a checksum of the others. */
    public RunSettings abridged(int chars) {
        Map<String, String> first = new LinkedHashMap<>();
        Map<String, String> others = new LinkedHashMap<>();
        int length = 0;
        for (Map.Entry<String, String> each : values.entrySet()) {
            length += each.getKey().length() + each.getValue().length() + Long.BYTES;
            (length <= chars ? first : others).put(each.getKey(), each.getValue());
        }
        return others.isEmpty() ? this : new RunSettings(first).with("checksum of the other settings",
                Long.toHexString(new RunSettings(others).checksum()));
    }

    /** Returns a checksum of 64 bits; settings with equal checksums count as equal. */
    public long checksum() {
        long sum = FNV_BASIS;
        for (Map.Entry<String, String> each : values.entrySet()) {
            sum = add(add(sum, each.getKey()), each.getValue());
        }
        return sum;
    }

    /** Adds a text to a checksum. (Fowler, Noll and Vo, 1991) */
    private static long add(long sum, String text) {
        long s = (sum ^ text.length()) * FNV_PRIME;
        for (int i = 0; i < text.length(); i++) {
            s = (s ^ text.charAt(i)) * FNV_PRIME;
        }
        return s;
    }

    /**
     * Requires that all ranks have the same settings.
     *
     * @param member word for a rank in the message: {@code rank} or {@code worker}
     * @throws SettingsMismatchException if they differ
     */
    public static void requireSame(List<RunSettings> byRank, String member) {
        SortedMap<Integer, RunSettings> numbered = new TreeMap<>();
        byRank.forEach(each -> numbered.put(numbered.size(), each));
        requireSame(numbered, member);
    }

    /** As {@link #requireSame(List, String)}, for some of the ranks. */
    public static void requireSame(SortedMap<Integer, RunSettings> byRank, String member) {
        Set<String> names = new LinkedHashSet<>();
        byRank.values().forEach(each -> names.addAll(each.values.keySet()));
        List<String> differing = names.stream().filter(name -> byRank.values().stream().map(each -> each.value(name))
                .distinct().count() > 1).toList();
        if (differing.isEmpty()) {
            return;
        }
        StringBuilder text = new StringBuilder("the settings of the ").append(member).append("s differ: ");
        for (int i = 0; i < Math.min(MAX_DESCRIBED, differing.size()); i++) {
            text.append(i == 0 ? "" : "; ").append(difference(differing.get(i), byRank, member));
        }
        int more = differing.size() - MAX_DESCRIBED;
        text.append(more > 0 ? "; and " + more + " more differ" : "").append("; give all ").append(member)
                .append("s the same settings");
        throw new SettingsMismatchException(differing.getFirst(), outlier(differing.getFirst(), byRank),
                text.toString());
    }

    private String value(String name) {
        return values.getOrDefault(name, ABSENT);
    }

    private static String difference(String name, SortedMap<Integer, RunSettings> byRank, String member) {
        Map<String, List<Integer>> ranks = new LinkedHashMap<>();
        byRank.forEach((rank, each) -> ranks.computeIfAbsent(each.value(name), _ -> new ArrayList<>()).add(rank));
        List<String> distinct = List.copyOf(ranks.keySet());
        int common = commonLength(distinct);
        StringBuilder text = new StringBuilder(name);
        int described = Math.min(MAX_DESCRIBED, distinct.size());
        for (int i = 0; i < described; i++) {
            text.append(i == 0 ? " is " : ", ").append(abridged(distinct.get(i), common)).append(" on ")
                    .append(list(member, ranks.getOrDefault(distinct.get(i), List.of())));
        }
        int others = distinct.size() - described;
        return text.append(others > 0 ? ", and " + others + " other values" : "")
                .toString();
    }

    private static int commonLength(List<String> values) {
        int length = 0;
        while (hasCommon(values, length)) {
            length++;
        }
        return length;
    }

    private static boolean hasCommon(List<String> values, int at) {
        String first = values.getFirst();
        return values.stream().allMatch(each -> at < Math.min(first.length(), each.length())
                && each.charAt(at) == first.charAt(at));
    }

    /** Returns a value, or if it is long, the part of it that begins shortly before the first difference. */
    private static String abridged(String value, int common) {
        if (value.length() <= MAX_VALUE) {
            return value;
        }
        int from = Math.max(0, common - CONTEXT);
        int to = Math.min(value.length(), from + MAX_VALUE);
        return (from > 0 ? "…" : "") + value.substring(from, to) + (to < value.length() ? "…" : "");
    }

    private static String list(String member, List<Integer> ranks) {
        StringBuilder text = new StringBuilder(member).append(ranks.size() > 1 ? "s " : " ");
        int listed = Math.min(MAX_RANKS, ranks.size());
        for (int i = 0; i < listed; i++) {
            text.append(i == 0 ? "" : i == ranks.size() - 1 ? " and " : ", ").append(ranks.get(i));
        }
        return text.append(listed < ranks.size() ? " and " + (ranks.size() - listed) + " others" : "").toString();
    }

    /** Returns the first rank whose value is not that of most ranks; of equally frequent values, the first counts. */
    private static int outlier(String name, SortedMap<Integer, RunSettings> byRank) {
        Map<String, Integer> counts = new HashMap<>();
        byRank.values().forEach(each -> counts.merge(each.value(name), 1, Integer::sum));
        String usual = "";
        for (RunSettings each : byRank.values()) {
            usual = counts.getOrDefault(each.value(name), 0) > counts.getOrDefault(usual, 0) ? each.value(name) : usual;
        }
        for (Map.Entry<Integer, RunSettings> each : byRank.entrySet()) {
            if (!each.getValue().value(name).equals(usual)) {
                return each.getKey();
            }
        }
        return -1;
    }
}
