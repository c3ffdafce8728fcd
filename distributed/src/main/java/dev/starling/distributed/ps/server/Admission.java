package dev.starling.distributed.ps.server;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Member;
import dev.starling.distributed.View;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.nn.train.RunEndedException;
import dev.starling.nn.train.RunSettings;
import dev.starling.nn.train.SettingsMismatchException;
import dev.starling.transport.Endpoint;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** Compares the plan and the settings of each worker with those of the first one. Under the group's lock. */
final class Admission {
    private final Plan plan;
    private final int first;
    private final RunSettings settings;
    /** Ids of the members of the group when the first worker opened its session. */
    private final Set<Long> founders;

    Admission(Plan plan, int first, RunSettings settings, View view) {
        this.plan = plan;
        this.first = first;
        this.settings = settings;
        founders = view.members().stream().map(Member::id).collect(Collectors.toSet());
    }

    /** Returns the plan of the first worker. */
    Plan plan() {
        return plan;
    }

    /** Returns whether a worker belonged to the group when the first worker opened its session. */
    boolean isFounder(Endpoint worker) {
        return worker.attachment() instanceof Long id && founders.contains(id);
    }

    /** Returns the connections to the workers in the group. */
    List<Endpoint> endpoints(Membership group) {
        return group.view().members().stream().filter(member -> !member.isServer())
                .map(member -> group.endpoint(member.id())).filter(Objects::nonNull).toList();
    }

    /** Returns why a worker cannot take part, or {@code null} if it can. */
    @Nullable RunEndedException refusal(int worker, RunSettings own, Plan itsPlan) {
        if (worker < 0 || worker >= plan.workers()) {
            return new DistributedException("the number of worker " + worker + " is not below the number of workers, "
                    + plan.workers() + "; number workers from 0");
        }
        try {
            // A replacement of the first worker is compared with that under a number that no worker has.
            RunSettings.requireSame(new TreeMap<>(Map.of(worker == first ? plan.workers() : first, settings, worker,
                    own)), "worker");
        } catch (SettingsMismatchException e) {
            return e;
        }
        String difference = plan.difference(itsPlan);
        return difference.isEmpty() ? null : new DistributedException("the settings of worker " + worker
                + " differ from the first worker's: it has " + difference + "; give all workers the same settings");
    }
}
