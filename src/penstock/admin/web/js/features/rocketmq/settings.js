/** The settings of brokers, as each tells them. */

import { table } from "../../widgets/table.js";
import { empty, section } from "../../widgets/ui.js";

/** A table for each broker, its replicas too. */
export function settingsView(page, brokers) {
  return brokers.map((each) => section({ title: `Broker ${each.broker}, ${each.address}`, id: idOf(each) },
    each.settings ? settingsTable(page, each) : empty("It gives no settings", each.reason, ".")));
}

function settingsTable(page, broker) {
  const columns = [
    { name: "name", title: "Setting" },
    { name: "value", title: "Value", hint: "Those that may hold secrets are not shown" },
  ];
  return table(page, {
    id: idOf(broker), columns, sort: "name", key: ({ name }) => name, filter: true,
    rows: Object.entries(broker.settings).map(([name, value]) => ({ name, value })),
    caption: `Settings of broker ${broker.broker} at ${broker.address}`,
    empty: empty("No settings", "The broker names none."),
  });
}

function idOf({ broker, address }) {
  return `settings-${broker}-${address.replace(/[^\w-]/g, "-")}`;
}
