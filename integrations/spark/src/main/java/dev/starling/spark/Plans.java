package dev.starling.spark;

import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Converts between Java's lists and the sequences of Spark's plans. */
final class Plans {
    private Plans() {
    }

    static <T> Seq<T> seq(List<? extends T> items) {
        return CollectionConverters.<T>asScala(List.<T>copyOf(items)).toSeq();
    }

    /** Concatenates two sequences. */
    static <T> Seq<T> join(Seq<T> first, Seq<? extends T> second) {
        return seq(Stream.concat(list(first).stream(), list(second).stream()).toList());
    }

    static AttributeSet set(Seq<Attribute> attributes) {
        return AttributeSet.apply(Plans.<Expression>seq(list(attributes)));
    }

    static <T> List<T> list(Seq<T> items) {
        return CollectionConverters.asJava(items);
    }
}
