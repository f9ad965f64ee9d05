/** The accounts of brokers' access rules; nobody is shown a secret. */

import { h } from "../../core/dom.js";
import { table } from "../../widgets/table.js";
import { badge, empty, section } from "../../widgets/ui.js";

/** A table for each broker. */
export function accountsView(page, brokers) {
  return brokers.map((each) => section({ title: `Broker ${each.broker}`, id: `accounts-${each.broker}` },
    each.accounts ? accountTable(page, each) : empty("It lists no accounts", each.reason,
      ". Brokers list them where aclEnable is true, RocketMQ's own up to 4.9.7.")));
}

function accountTable(page, { broker, accounts, trusted }) {
  const columns = [
    { name: "account", title: "Account", cell: ({ account, admin }) =>
      [account, admin && [" ", badge("administrator", "accent", "May do everything")]] },
    { name: "topic_perm", title: "Topics", hint: "What it may do to topics that are not named" },
    { name: "group_perm", title: "Groups", hint: "What it may do to groups that are not named" },
    { name: "topics", title: "Named topics", value: ({ topics }) => list(topics) },
    { name: "groups", title: "Named groups", value: ({ groups }) => list(groups) },
    { name: "from", title: "Trusted from", hint: "Addresses from which it needs no signature" },
  ];
  return [
    trusted.length > 0 && h("p", { class: "faint" }, `Everything is allowed from ${list(trusted)}.`),
    table(page, {
      id: `accounts-${broker}`, columns, rows: accounts, key: ({ account }) => account, sort: "account",
      filter: accounts.length > 8, caption: `Accounts of broker ${broker}`,
      empty: empty("No accounts", "The broker's rules name none."),
    }),
  ];
}

function list(words) {
  return (words ?? []).join(", ");
}
