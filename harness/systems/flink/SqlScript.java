package onceproof;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.TableEnvironment;

/** Executes the statements of a SQL script, which are its arguments, as one job: all INSERTs together. */
public final class SqlScript {
    private static final Pattern SET =
            Pattern.compile("SET\\s+'([^']+)'\\s*=\\s*'([^']*)'", Pattern.CASE_INSENSITIVE);
    private static final Pattern INSERT = Pattern.compile("INSERT\\s.*", Pattern.CASE_INSENSITIVE | Pattern.DOTALL);

    private SqlScript() {}

    public static void main(String[] statements) {
        TableEnvironment environment = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        StatementSet inserts = environment.createStatementSet();
        for (String statement : statements) {
            Matcher setting = SET.matcher(statement);
            if (setting.matches()) {
                environment.getConfig().set(setting.group(1), setting.group(2));
            } else if (INSERT.matcher(statement).matches()) {
                inserts.addInsertSql(statement);
            } else {
                environment.executeSql(statement);
            }
        }
        inserts.execute();
    }
}
