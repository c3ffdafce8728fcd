package dev.starling.distributed.coordinator;

import dev.starling.distributed.View;
import dev.starling.distributed.group.Control;
import dev.starling.distributed.group.SuccessorProvider;
import dev.starling.transport.Transport;
import java.util.function.LongPredicate;

/** Opens coordinators that take the place of lost ones. For {@link java.util.ServiceLoader}. */
@SuppressWarnings("exports")
public final class SuccessorOpener implements SuccessorProvider {
    /** Creates the provider. */
    public SuccessorOpener() { }

    private record Opened(Coordinator coordinator) implements Successor {
        @Override
        public String address() {
            return coordinator.address();
        }

        @Override
        public int doWork() {
            return coordinator.doWork();
        }

        @Override
        public boolean isDone() {
            return coordinator.isDone();
        }

        @Override
        public void close() {
            coordinator.close();
        }
    }

    @Override
    public Successor open(Transport transport, Control.Rules rules, View started, View seen, int rank,
            LongPredicate isReached) {
        return new Opened(Coordinator.succeed(transport, rules, started, seen, rank, isReached));
    }
}
